# Writes whose machine it is, before anything else is written. Who is first has it: `ln` makes the whole file appear
# at once and never replaces one, so of two that claim at the same moment exactly one wins.
folder=/var/lib/covey
owner=$folder/owner.json
is_ours() {
    [ -f "$owner" ] && [ "$(field "$owner" installation)" = "$(parameter installation)" ] \
        && [ "$(field "$owner" tenantCluster)" = "$(parameter tenantCluster)" ] \
        && [ "$(field "$owner" machine)" = "$(parameter machine)" ]
}
# The answer of a claim before this one was lost. It stays ours where nothing can be written any more.
if is_ours; then
    answer result claimed installation "$(field "$owner" installation)" \
        tenantCluster "$(field "$owner" tenantCluster)" machine "$(field "$owner" machine)"
    exit 0
fi
if ! mkdir -p "$folder" 2> /dev/null; then
    answer result unwritable
    exit 0
fi
chmod 0700 "$folder"
draft=$folder/owner.$$
trap 'rm -f "$draft"' EXIT
if ! { answer installation "$(parameter installation)" tenantCluster "$(parameter tenantCluster)" \
    machine "$(parameter machine)" madeAt "$(parameter madeAt)" > "$draft"; } 2> /dev/null; then
    answer result unwritable
    exit 0
fi
# On disk before it is seen: after a power cut there is the whole file or none.
sync "$draft" 2> /dev/null || sync
result=foreign
# Whether it is the owner that was seen by whoever takes a node over.
is_as_seen() {
    [ "$(parameter replaces)" = true ] && [ -f "$owner" ] \
        && [ "$(field "$owner" installation)" = "$(parameter seenInstallation)" ] \
        && [ "$(field "$owner" tenantCluster)" = "$(parameter seenTenantCluster)" ] \
        && [ "$(field "$owner" machine)" = "$(parameter seenMachine)" ]
}
if ln "$draft" "$owner" 2> /dev/null; then
    result=claimed
elif is_ours; then
    result=claimed
elif is_as_seen; then
    # Compared and swapped under the lock of workers: of two that take it over at once one wins, and while somebody's
    # worker is busy here nobody does.
    run=/run/covey
    if mkdir -p "$run" && chmod 0700 "$run" && : >> "$run/lock" && exec 9> "$run/lock" && flock -n 9; then
        if is_as_seen; then
            mv -f "$draft" "$owner"
            sync "$owner" 2> /dev/null || sync
            # Nobody has looked at it for this owner yet.
            rm -f "$folder/looked"
        fi
        exec 9>&-
    fi
    if is_ours; then result=claimed; fi
fi
answer result "$result" installation "$(field "$owner" installation)" \
    tenantCluster "$(field "$owner" tenantCluster)" machine "$(field "$owner" machine)"
