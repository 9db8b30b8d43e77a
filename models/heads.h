// The heads of an encoder: a classifier or a regressor on the first token, labels of words, the prediction of masked
// words, or a sentence embedding.
#pragma once

#include <memory>

#include "lib/layers/distillation.h"
#include "lib/layers/loss.h"
#include "lib/layers/squared_error.h"
#include "models/encoder/encoder_block.h"

namespace comera::models {

class Head {
 public:
  virtual ~Head() = default;
  // Lists the inputs of forward() and backward().
  virtual void declare(const data::Batch& batch, const layers::Distillation& distillation, plan::Inputs& inputs) = 0;
  // x [K, hidden]. Adds loss and hits to the state. In evaluation the caller drops the outputs.
  virtual layers::Outputs forward(Pass& pass, layers::StepState& state, const Value& x) = 0;
  // Returns dx [K, hidden]; the caller drops it.
  virtual Tensor backward(Pass& pass, Sink& sink) = 0;
  virtual layers::VocabularyDecoder* vocabulary_decoder() { return nullptr; }
};

// Token 0 -> linear -> tanh -> dropout -> dense -> labels (method of the CoMERA six-encoder model; BERT's pooler and
// classifier).
std::unique_ptr<Head> make_classifier(Builder& builder, const EncoderSpec& spec);
// The same with one output, a number that is trained with the mean squared error.
std::unique_ptr<Head> make_regressor(Builder& builder, const EncoderSpec& spec);
// The same with independent labels: one logit each, and the logistic loss.
std::unique_ptr<Head> make_multilabel_classifier(Builder& builder, const EncoderSpec& spec);
// Every token -> dropout -> linear -> labels.
std::unique_ptr<Head> make_tagger(Builder& builder, const EncoderSpec& spec);
// Tokens -> one vector by spec.sentence. Also returns the hidden states. A pooler of the checkpoint is kept. With
// the task pairs, vectors have length 1 and learn from the other pairs of the batch.
std::unique_ptr<Head> make_sentence_embedding(Builder& builder, const EncoderSpec& spec);
// Masked rows -> linear -> GELU -> LayerNorm -> decoder tied to the word table.
std::unique_ptr<Head> make_masked_language_model(Builder& builder, const EncoderSpec& spec, layers::Table& words);

}  // namespace comera::models
