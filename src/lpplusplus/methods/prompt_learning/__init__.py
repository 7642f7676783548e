"""What the prompt learners share: prompts with free slots for context vectors, the text tower, training through it."""
