"""The checks of `doctor`, one function per feature, with the HTTP client and the validators that they share.

May import `gateway.replies.loss_header`, `gateway.config`, `gateway.pages.saved_report`, `providers.base`,
`providers.engine_checks` and `translation`.
"""
