#!/bin/bash
printf 'apple\npear\nquince\n' | cmp - /task/answer.txt && reward=1 || reward=0
cp /task/built-by.txt /logs/verifier/
echo "$reward" >/logs/verifier/reward.txt
