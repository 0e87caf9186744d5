"""The database's history: one file per change, in `versions/`. Changes only add, see docs/adr/0014."""
