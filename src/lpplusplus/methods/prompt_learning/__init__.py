"""What the prompt learners share: prompts with free places for context vectors, the text tower, training through it."""
