# How far the worker is. Changes nothing.
answer working "$(true_if is_working)" operation "$(field "$state" operation)" id "$(field "$state" id)" \
    step "$(field "$state" step)" result "$(field "$state" result)" message "$(field "$state" message)" \
    nodeName "$(field "$state" nodeName)" kubeletCA "$(kubelet_ca)" \
    ownerMachine "$(field "$folder/owner.json" machine)"
