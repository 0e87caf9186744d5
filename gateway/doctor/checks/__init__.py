"""The checks of `doctor`, one function per feature, with the HTTP client and the validators that they share.

May import `gateway.config`, `gateway.errors`, `gateway.pages.saved_report` and `gateway.replies.loss_header`; no other
package of `gateway`.
"""
