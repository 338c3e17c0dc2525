"""The durable loop: an agent made of recorded steps. Each turn of the model and each call of a tool is a step of its own, so that a
run which was killed in the middle of an agent's work goes on inside the conversation.

backend.py    one prompt answered: what is opened for it, and closed
loop.py       turn, tools, turn, until there is an answer
turn.py       one turn as a step: attempts, waits, fallbacks
history.py    the conversation, as the log holds it
prompt.py     what an agent is told before its task
answers.py    whether an answer is what was asked for
compaction.py when a conversation is too long, and what becomes of it
saving.py     the session file, told what the log has
"""
