"""Durable execution: runs are logs of finished steps."""
