"""What no plan of `lpp bench` can ask: are probabilities what they say, do suggestions help, are promises kept?"""
