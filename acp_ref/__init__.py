"""acp_ref: the Agent Client Protocol on trio."""
