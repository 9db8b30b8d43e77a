// The forms of the weights of small models.
#pragma once

#include "models/forms.h"

template <class AnySpec>
void apply_small_forms(AnySpec& spec, comera::models::Form form) {
  using namespace comera;
  models::FormRules rules;
  rules.form = form;
  rules.rank = 3;
  rules.embedding_rank = 3;
  rules.order = 2;
  rules.embedding_order = 3;
  models::apply_forms(spec, models::weight_sites(spec), rules);
}
