# Runs scripts one after the other, in one shell: a number and a space, then three texts that end in NUL make one order.
# The descriptors have fixed numbers, so that they can be closed for the code alone: its programs must not inherit them.
eval "exec 250<&$1 251>&$2 $1<&- $2>&-"
shift 2
trap : INT
__done() { return "$1"; }
while IFS= read -r -d ' ' __number <&250 && IFS= read -r -d '' __before <&250 &&
    IFS= read -r -d '' __code <&250 && IFS= read -r -d '' __after <&250; do
    eval "$__before"
    __done "${__status:-0}"
    eval "$__code" 250<&- 251>&-
    __status=$?
    eval "$__after"
    printf '{"type":"end","number":%d,"status":%d}\n' "$__number" "$__status" >&251
done
