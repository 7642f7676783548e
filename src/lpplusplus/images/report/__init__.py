"""A page about a classifier, for people: one HTML file with its pictures inside. Needs Jinja2 and Pillow."""

from .map import map_page
from .page import evaluation_page, training_page

__all__ = ["evaluation_page", "map_page", "training_page"]
