"""The commands as tools of an agent, over the Model Context Protocol: `envdoctor mcp`, docs/agents.md."""
