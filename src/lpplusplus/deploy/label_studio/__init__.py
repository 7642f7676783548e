"""`lpp label-studio`: a machine-learning backend for Label Studio that learns from every annotation.

`app.py` speaks its HTTP protocol, `config.py` reads a project's labelling configuration, `photos.py` fetches the images
of tasks from where the user said they are, and `learner.py` fits.
"""
