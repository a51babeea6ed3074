"""The typed graph: dims, types, values, nodes, op definitions, text form."""
