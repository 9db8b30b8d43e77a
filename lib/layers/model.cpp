#include "lib/layers/model.h"

namespace comera::layers {

const char* name_of(Form form) {
  switch (form) {
    case Form::dense: return "dense";
    case Form::tt: return "tt";
    case Form::lowrank: return "lowrank";
    case Form::ttm: return "ttm";
  }
  return "?";
}

}  // namespace comera::layers
