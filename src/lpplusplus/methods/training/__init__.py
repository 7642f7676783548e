"""What the methods trained with torch share: their data, schedule, loop over epochs and checkpoints."""
