# Answers the first time with less than the second: the loop turns twice.
echo "think-$PERDURE_VISIT" >> "$SWEEP_COUNTER"
echo "thought $PERDURE_VISIT" > "thought-$PERDURE_VISIT.txt"
echo "Thought number $PERDURE_VISIT."
