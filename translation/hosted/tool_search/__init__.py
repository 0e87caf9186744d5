"""Tools that a model does not see before it has searched for them.

May import `translation.hosted.outcomes`, `translation.hosted.call_forms`, `translation.hosted.tools`,
`translation.lowering.client_search` and `translation.representation`.
"""
