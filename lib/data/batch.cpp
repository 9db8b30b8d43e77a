#include "lib/data/batch.h"

#include <cstring>

#include "lib/core/error.h"

namespace comera::data {

TensorView Batch::add(const char* name, DType dtype, Shape shape) {
  Item* item = nullptr;
  for (auto& candidate : items_)
    if (candidate->name == name) item = candidate.get();
  if (!item) {
    items_.push_back(std::make_unique<Item>());
    item = items_.back().get();
    item->name = name;
  }
  item->view = TensorView{nullptr, dtype, shape};
  item->storage.resize((item->view.bytes() + 7) / 8);
  item->view.data = item->storage.data();
  return item->view;
}

TensorView Batch::operator[](const char* name) const {
  for (const auto& item : items_)
    if (item->name == name) return item->view;
  fail_check(name, __FILE__, __LINE__);
}

bool Batch::has(const char* name) const {
  for (const auto& item : items_)
    if (item->name == name) return true;
  return false;
}

}  // namespace comera::data
