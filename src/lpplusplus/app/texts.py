"""All words of the page, in one place for translation. What is in braces is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .journal import Change

TABS = {
    "classes": "Classes",
    "try": "Try it",
    "review": "Review",
    "suggest": "Suggest",
    "understand": "Understand",
    "export": "Export",
}
PHASES = {
    "idle": "",
    "opening": "Opening the encoder …",
    "embedding": "Looking at photos: {done} of {total}",
    "learning": "Learning …",
    "measuring": "Measuring how good it is …",
}
CHANGES = {
    "add_class": "new class {name}",
    "rename": "{name} is now {to}",
    "remove_class": "class {name} removed",
    "add": "{photos} added to {to}",
    "move": "{photos} moved to {to}",
    "remove": "{photos} removed",
}
TEXTS = {
    "undo": "Undo",
    "undo_what": "Undo: {what}",
    "redo": "Redo",
    "redo_what": "Do again: {what}",
    "nothing_to_undo": "Nothing to undo",
    "undone": "Undone: {what}",
    "redone": "Done again: {what}",
    "left": "{what}, except {paths} that somebody had moved or replaced",
    "cancel": "Cancel",
    "go_on": "Go on",
    "paused": "Stopped. Photos that are not yet looked at do not count.",
    "main_tabs": "Parts of the page",
    "skip": "Skip to the content",
    "problem": "It did not learn this: {problem}",
    "unreadable": "Cannot be read: {photos}",
    "classes_missing": "Make two classes or more: type a name.",
    "names_alone": "Answers by the names alone. Add photos, and it learns.",
    "one_class": "Learned {photos} of {known}. Add photos of {missing}, too: then it can tell them apart.",
    "or": " or ",
    "too_few": "Learned {photos}. With 3 photos in each class it can tell how good it is.",
    "accuracy": "{accuracy} % right",
    "interval": "between {low} and {high} %, with 95 % confidence",
    "measured_on": "measured on photos that were held out, {photos} in all",
    "measuring_again": "of the state before; being measured again",
    "learned_in": "learned {photos} in {seconds} s",
    "enough": "How good is it?",
    "more_photos": "With {photos} photos per class: about {accuracy} %, between {low} and {high}",
    "curve": "Accuracy by photos per class",
    "curve_axis": "photos per class",
    "curve_both": "names and photos",
    "curve_names": "names alone",
    "weakest": "More photos would help most in:",
    "weak": "{label} ({accuracy} % of {images})",
    "new_class": "New class",
    "new_class_hint": "such as robin",
    "add_class": "Add",
    "first": "What shall it tell apart? Type the name of a first class, then of a second.",
    "unsorted": "Unsorted",
    "drop": "Drop photos here",
    "choose": "Choose photos",
    "choose_for": "Choose photos for {name}",
    "webcam": "Webcam",
    "webcam_for": "Take photos for {name} with the webcam",
    "close": "Close",
    "rename": "Rename",
    "rename_class": "Rename {name}",
    "rename_ok": "OK",
    "remove_class": "Remove class {name} and its photos",
    "remove": "Remove",
    "more": "Show {count} more",
    "photos": "{count} photos",
    "photo": "1 photo",
    "move_to": "Move to",
    "photo_of": "{path}, in class {label}",
    "held_out_said": "Without having seen it, it says: {answer} ({percent} %)",
    "keys_classes": "With a photo in focus: arrows walk, 1–9 move it to that class, Delete removes, Enter opens, "
    "x marks several.",
    "try_hint": "Drop a photo here to see what it says. The photo is not kept.",
    "try_none": "None of these: it looks unlike all that was learned.",
    "try_some": "It looks like one of the classes.",
    "try_unknown": "With 2 photos in each class it can also tell when a photo shows none of them.",
    "try_nothing": "There is nothing to ask yet: make two classes.",
    "try_because": "Because it looks like",
    "try_add": "Is it something else? Add it to",
    "try_added": "Added to {name}.",
    "answers": "Answers",
    "tried_photo": "The photo that you asked about",
    "review_empty": "Nothing to review: no mistakes, no doubtful labels, no duplicates were found.",
    "review_wait": "With 3 photos in each class, mistakes and doubtful labels are shown here.",
    "mislabelled": "Wrong label?",
    "mislabelled_about": "To a classifier that has not seen the photo, another class is far likelier than its label.",
    "mistakes": "Mistakes",
    "mistakes_about": "Held-out photos whose answer was wrong: hard ones, or wrongly labelled ones.",
    "twins": "Alike in two classes",
    "twins_about": "Two photos that look the same and have different labels. One of them is probably wrong.",
    "duplicates": "Duplicates",
    "duplicates_about": "Two photos of one class that look the same. The second teaches nothing.",
    "confused": "Often confused",
    "confused_about": "Pairs of classes that are taken for each other. More, or clearer, photos of both help.",
    "confused_pair": "{truth} taken for {answer}: {images}",
    "is_but_looks": "{label}, looks like {answer} ({percent} %)",
    "move_it": "Move to {name}",
    "keep": "Keep",
    "keep_it": "Keep: {path} is right as it is",
    "remove_it": "Remove {path}",
    "suggest_empty": "No unsorted photos. Drop some here, or copy them into the folder unsorted/, and label them fast.",
    "suggest_classes": "Make two classes first; then unsorted photos can be labelled here.",
    "suggest_unreadable": "None of the unsorted photos can be read.",
    "suggest_wait": "Looking at the photos …",
    "suggest_left": "{count} unsorted photos left, the most useful first",
    "suggest_guess": "{guess}? ({percent} %)",
    "suggest_why": "Why this one: {reason}.",
    "accept": "Yes, {name}",
    "previous": "Previous",
    "next": "Next",
    "keys_suggest": "Enter accepts, 1–9 choose a class, ← → walk, Delete removes, u undoes.",
    "which_class": "Which class?",
    "map": "Map of the photos",
    "map_about": "Photos that look alike to the encoder are close. Colours are classes; grey is unsorted.",
    "map_PCA": "The two directions in which the photos differ most (PCA).",
    "map_UMAP": "Neighbours are neighbours; distances between groups mean little (UMAP).",
    "map_draw": "Draw with {kind}",
    "map_working": "Drawing with UMAP: {done} of {total}",
    "map_starting": "Drawing with UMAP: it takes half a minute …",
    "map_sampled": "{shown} of {count} photos are drawn.",
    "map_wait": "The map is drawn when there are 3 photos.",
    "matrix": "Confusion matrix",
    "matrix_about": "Rows are labels, columns are answers about held-out photos. Choose a number to see its photos.",
    "matrix_cell": "{count} photos of {truth}, answered {answer}",
    "matrix_wait": "With 3 photos in each class, the confusion matrix is shown here.",
    "label": "Label",
    "matrix_photos": "{truth}, answered {answer}",
    "export_file": "The classifier",
    "export_file_about": "For lpp predict, lpp serve and Python. It holds no photos, only numbers made from them.",
    "export_onnx": "One ONNX file",
    "export_onnx_about": "Photo in, probabilities out, for onnxruntime on any machine, phone or web page.",
    "export_report": "A report",
    "export_report_about": "How good it is and where it errs, as one page with small copies of some photos.",
    "export_photos": "The labelled photos",
    "export_photos_about": "A zip file with a folder per class.",
    "export_make": "Make",
    "export_again": "Make again",
    "export_download": "Download",
    "export_working": "Working: {done} of {total}",
    "export_wait": "Add photos to two classes first.",
    "encoder": "Encoder",
    "encoder_about": "What turns photos and names into numbers. Another one means: look at all photos again, in the "
    "background.",
    "encoder_now": "in use",
    "encoder_use": "Use {name}",
    "encoder_fetch": "Download {name} ({size} MB) and use it",
    "encoder_missing": 'needs: pip install "lpplusplus[{needs}]"',
    "fetching": "Downloading {name}: {done} of {total} MB",
    "commands": "The same with commands",
    "commands_about": "The project is a folder. In a terminal, in the folder that {name} is in:",
    "network": "Nothing leaves this machine, except that a download asks the Hugging Face hub.",
    "mistake": "This is a mistake of the program; what it prints in the terminal says more.",
    "guard_name": "The page is not called by that name: use the address that lpp app printed.",
    "guard_origin": "The request comes from another page.",
    "guard_token": "Open the whole address that lpp app printed, with its ?token=.",
    "guard_open": "Open the page",
    "guard_password": "Password",
    "guard_submit": "Open",
    "guard_wrong": "That is not the password.",
    "guard_long": "That is too long for a password.",
    "guard_wait": "Wait a second, then try again.",
}


def say(key: str, **values: Any) -> str:
    """A text with its values. No line ends before a percent sign."""
    return TEXTS[key].format(**values).replace(" %", "\u00a0%")


def change(about: Mapping[str, Any]) -> str:
    """What a change of the project is called. A journal may come from somebody else: then it may lack a word."""
    try:
        return CHANGES[str(about["what"])].format(**about, photos=counted(int(about.get("count", 0))))
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return "…"


def reverted(done: Change) -> str:
    """What an undo or redo did, and how much of it could not be done."""
    what = change(done.about)
    return say("left", what=what, paths=done.left) if done.left else what


def percent(part: float) -> str:
    """0.913 as "91"; but neither 0 nor 100 unless it is that.

    >>> percent(0.913), percent(0.9999), percent(1.0), percent(0.0001)
    ('91', '99.9', '100', '0.1')
    """
    if min(part, 1 - part) < 1e-9:
        return str(round(100 * part))
    rounded = round(100 * part)
    return str(rounded) if 0 < rounded < 100 else f"{min(99.9, max(0.1, 100 * part)):.1f}"


def counted(count: int) -> str:
    """1 photo, 2 photos."""
    return say("photo") if count == 1 else say("photos", count=count)
