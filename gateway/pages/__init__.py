"""Pages for people: the server's home page and its API page.

HTML, styles and scripts are files in `static/`. What a page shows is a read model: a value that one function builds,
that a route serves as JSON, and that the page's script renders. May import no other package of the project.
"""
