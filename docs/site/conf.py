"""How the Markdown of this repository becomes a site (`make docs`): Sphinx, with MyST.

The pages are those of docs/, and the files elsewhere that they link to, so links are the same on
the site as where the repository is read.
"""

from docutils import nodes
from pygments.lexers import PostgresLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

project = "Rallypoint"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Rallypoint"
html_extra_path = ["start"]

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "docs/**.md",
    "benches/*.md",
    "clients/*/README.md",
    "deploy/README.md",
    "tests/README.md",
]
exclude_patterns = ["target"]

# Links to headings are checked like those to pages.
myst_heading_anchors = 4
nitpicky = True

# Dollar quotes and the like.
lexers["sql"] = PostgresLexer()

# Nothing is asked of other machines: the theme brings its fonts, scripts and styles.
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False


def _as_orphan(app: Sphinx, _doctree: nodes.document) -> None:
    """Decisions are many: their README lists them, and the sidebar does not."""
    if "/decisions/0" in app.env.docname:
        app.env.metadata[app.env.docname]["orphan"] = True


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", _as_orphan)
