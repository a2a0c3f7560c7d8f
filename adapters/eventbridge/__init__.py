"""Amazon EventBridge: events for everybody."""
