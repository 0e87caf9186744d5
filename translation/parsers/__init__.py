"""Structure out of plain model text, incrementally, however the text is cut."""
