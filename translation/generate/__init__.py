"""`POST /generate`, the small contract: asked in chat's words, answered with thinking and answer side by side."""
