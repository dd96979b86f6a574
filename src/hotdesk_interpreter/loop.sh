# Runs scripts one after the other, in one shell: three texts that end in NUL make one order.
__orders=$1 __events=$2
shift 2
trap : INT
__done() { return "$1"; }
while IFS= read -r -d '' __before <&"$__orders" && IFS= read -r -d '' __code <&"$__orders" &&
    IFS= read -r -d '' __after <&"$__orders"; do
    eval "$__before"
    __done "${__status:-0}"
    eval "$__code" {__orders}<&"$__orders" {__events}>&"$__events"
    __status=$?
    eval "$__after"
    printf '{"type":"end","status":%d}\n' "$__status" >&"$__events"
done
