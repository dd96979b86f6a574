#!/bin/bash
[ -e /task/begun ] && [ ! -e /task/done ] && reward=0.5 || reward=0
echo "$reward" >/logs/verifier/reward.txt
