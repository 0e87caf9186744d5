"""What goes wrong around tool calls on every upstream, put right in one place: past calls, tools, calls of a reply."""
