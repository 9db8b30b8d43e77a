// The names and properties of tasks, declared in lib/data/loader.h.
#include "lib/data/loader.h"

namespace comera::data {

const char* name_of(Task task) {
  switch (task) {
    case Task::classify: return "classify";
    case Task::mlm: return "mlm";
    case Task::clm: return "clm";
    case Task::embed: return "embed";
    case Task::regression: return "regression";
    case Task::ctr: return "ctr";
    case Task::image: return "image";
    case Task::multilabel: return "multilabel";
    case Task::tag: return "tag";
    case Task::pairs: return "pairs";
  }
  return "?";
}

}  // namespace comera::data
