// Runs one row of a case through llama.cpp and writes every float32 tensor that its eval callback sees.
//
//     recorder MODEL.gguf OUT < steps      a line a step: "id:position id:position …"; an empty line is a step of padding
//
// OUT/STEP/NAME.npy, NAME as llama.cpp calls the tensor. It calls several one name: the last one is NAME, the first
// product is NAME.mul_mat. Attention runs without a fused kernel and with a float32 cache, or its scores are nowhere.
#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Array {
    std::vector<int64_t> shape;  // slowest axis first
    std::vector<float> values;
};

using Arrays = std::map<std::string, Array>;

Array copied(const ggml_tensor * t) {
    std::vector<char> bytes(ggml_nbytes(t));
    ggml_backend_tensor_get(t, bytes.data(), 0, bytes.size());
    Array found;
    for (int axis = ggml_n_dims(t) - 1; axis >= 0; --axis) found.shape.push_back(t->ne[axis]);
    for (int64_t l = 0; l < t->ne[3]; ++l)
        for (int64_t k = 0; k < t->ne[2]; ++k)
            for (int64_t j = 0; j < t->ne[1]; ++j)
                for (int64_t i = 0; i < t->ne[0]; ++i)
                    found.values.push_back(*reinterpret_cast<const float *>(
                        bytes.data() + i * t->nb[0] + j * t->nb[1] + k * t->nb[2] + l * t->nb[3]));
    return found;
}

bool keep(ggml_tensor * t, bool ask, void * data) {
    if (ask || t->type != GGML_TYPE_F32) return true;
    auto & arrays = *static_cast<Arrays *>(data);
    Array array = copied(t);
    if (t->op == GGML_OP_MUL_MAT) arrays.emplace(std::string(t->name) + ".mul_mat", array);
    arrays[t->name] = std::move(array);
    return true;
}

void write(const Arrays & arrays, const std::filesystem::path & folder) {
    std::filesystem::create_directories(folder);
    for (const auto & [name, array] : arrays) {
        std::string shape, file = name;
        for (int64_t size : array.shape) shape += std::to_string(size) + ",";
        std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
        head.append(63 - (head.size() + 10) % 64, ' ');
        head += '\n';
        std::replace(file.begin(), file.end(), '/', '_');
        std::ofstream out(folder / (file + ".npy"), std::ios::binary);
        const uint16_t size = static_cast<uint16_t>(head.size());
        out.write("\x93NUMPY\x01\x00", 8);
        out.write(reinterpret_cast<const char *>(&size), 2);
        out << head;
        out.write(reinterpret_cast<const char *>(array.values.data()), array.values.size() * sizeof(float));
    }
}

int fail(const std::string & what) {
    std::cerr << what << '\n';
    return 1;
}

}  // namespace

int main(int argc, char ** argv) {
    if (argc != 3) return fail("usage: recorder MODEL.gguf OUT < steps");
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model_params of_model = llama_model_default_params();
    of_model.use_extra_bufts = false;  // weights stay as they are, not repacked for one processor
    llama_model * model = llama_model_load_from_file(argv[1], of_model);
    if (!model) return fail("the model cannot be loaded");
    Arrays arrays;
    llama_context_params of_context = llama_context_default_params();
    of_context.n_ctx = of_context.n_batch = of_context.n_ubatch = 512;
    of_context.n_threads = of_context.n_threads_batch = 1;
    of_context.type_k = of_context.type_v = GGML_TYPE_F32;
    of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    of_context.cb_eval = keep;
    of_context.cb_eval_user_data = &arrays;
    llama_context * context = llama_init_from_model(model, of_context);
    if (!context) return fail("there is no context");
    std::string line;
    for (int step = 0; std::getline(std::cin, line); ++step) {
        std::istringstream words(line);
        std::vector<std::pair<llama_token, llama_pos>> tokens;
        llama_token id;
        llama_pos position;
        for (char colon; words >> id >> colon >> position;) tokens.emplace_back(id, position);
        if (tokens.empty()) continue;
        llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
        batch.n_tokens = static_cast<int32_t>(tokens.size());
        for (size_t i = 0; i < tokens.size(); ++i) {
            batch.token[i] = tokens[i].first;
            batch.pos[i] = tokens[i].second;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;  // or the last layer drops the other rows
        }
        if (llama_decode(context, batch)) return fail("step " + std::to_string(step) + " cannot be run");
        write(arrays, std::filesystem::path(argv[2]) / std::to_string(step));
        arrays.clear();
        llama_batch_free(batch);
    }
    llama_free(context);
    llama_model_free(model);
    return 0;
}
