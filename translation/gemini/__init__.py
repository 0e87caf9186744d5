"""Gemini's own API: `generateContent`. https://ai.google.dev/api/generate-content"""
