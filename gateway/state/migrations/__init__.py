"""The database's history: one file per change, in `versions/`. Changes only add: docs/adr/0014."""
