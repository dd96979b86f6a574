#!/bin/bash
set -e
sort lines.txt >answer.txt
echo "solved in $PWD"
