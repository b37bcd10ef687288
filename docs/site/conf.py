"""How the Markdown of this repository becomes a site (`make docs`): Sphinx, with MyST.

The pages are those of docs/, and the files elsewhere that they link to, so links are the same on
the site as where the repository is read.
"""

from pygments.lexers import PostgresLexer
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
