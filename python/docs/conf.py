"""Settings of the documentation, which Sphinx builds: `python -m sphinx -W --keep-going -b html python/docs OUT`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import manyclass  # noqa: E402

project = "manyclass"
author = "the authors of manyclass"
release = version = manyclass.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "extension",
]
exclude_patterns = ["_build", "_templates", "guides/*.rst", "**/sg_execution_times.rst", "sg_execution_times.rst"]
default_role = "py:obj"
nitpicky = False  # types in docstrings are words for people, as numpydoc has them
suppress_warnings = ["config.cache"]  # a scraper is a function, which the cache of settings cannot keep

autosummary_generate = True
autodoc_typehints = "none"
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_math_renderer = "mathml"  # see extension.py: browsers show it without a script from elsewhere
html_theme = "pydata_sphinx_theme"
html_title = "manyclass"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_copy_source = False
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Without a list of pages at the left: their tables and their code are wide, and the next page is linked at their end.
WIDE = """
index how_to explanation auto_guides/* choose default auto other_packages choice_packages command_line serving deploy
cluster annif method results protocols experiments papers pictures add_a_part reference/parts
"""
html_sidebars = {name: [] for name in WIDE.split()}
copyright = "the authors of manyclass, BSD-3-Clause"

sphinx_gallery_conf = {
    "examples_dirs": ["guides"],
    "gallery_dirs": ["auto_guides"],
    "filename_pattern": r"plot_",
    "image_scrapers": ("extension.scraper",),
    "ignore_repr_types": "Picture",
    "remove_config_comments": True,
    "reset_modules": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "min_reported_time": 1_000,
    "within_subsection_order": "extension.ReadingOrder",
}
# External addresses are listed by the link check's output, and not fetched: a build needs no network.
linkcheck_ignore = [r"https?://"]
