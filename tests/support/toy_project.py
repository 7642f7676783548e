"""What is in a project of the page."""

from lpplusplus.images.sources.folders import UNSORTED


def photos_of(project, name):
    """Paths of the photos of a class, or of the unsorted ones."""
    listing = project.listing()
    return [photo.path for photo in (listing.unsorted if name == UNSORTED else listing.classes[name])]
