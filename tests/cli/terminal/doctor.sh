#!/usr/bin/env bash
# comera doctor on the CPU: facts of the machine, kernels against their bounds, and steps that agree with the reference.
. "$(dirname "$0")/../expect.sh"

run "$COMERA" doctor --json
expect_exit 0
expect_json "d['kind'] == 'doctor' and d['device'] == 'cpu' and d['works'] and 0 < d['free_bytes'] <= d['total_bytes']"
expect_json "d['pinned_difference'] <= d['pinned_tolerance'] == 1e-5"
expect_json "{'tt_linear_forward', 'tt_linear_backward', 'norm_forward', 'norm_backward', 'attention_forward', \
  'attention_backward', 'embedding_forward', 'cross_entropy_chunk', 'adamw', 'adagrad', 'sgd'} \
  <= {k['kernel'] for k in d['kernels']}"
expect_json "all(k['bytes'] > 0 and k['microseconds'] > 0 and 0 < (k['share_of_bound'] or 1) <= 1 for k in d['kernels'])"

run "$COMERA" doctor --device cuda:99
expect_exit 2
finish
