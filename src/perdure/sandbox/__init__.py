"""Where commands run: process groups, output, time limits."""
