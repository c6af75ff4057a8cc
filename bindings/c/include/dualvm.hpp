// C++17 over dualvm.h: handles that free themselves, and errors as exceptions. Header only, and thin: whatever isn't
// here is a call of the C interface with `.get()`.
//
//     dualvm::Engine engine;
//     auto f = engine.compile("f.dual", "def f (x : Real) : Real = x ^ 2").function("f");
//     auto frame = f.frame();
//     double gradient[1];
//     double value = frame.value_and_grad({dualvm_real(3)}, gradient, 1);

#ifndef DUALVM_HPP
#define DUALVM_HPP

#include "dualvm.h"
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dualvm {

// What went wrong. `what` is the message for people, of several lines.
class Error : public std::runtime_error {
  public:
    Error(dualvm_status status, dualvm_error *error)
        : std::runtime_error(*dualvm_error_message(error) ? dualvm_error_message(error) : dualvm_status_name(status)),
          status_(status), error_(error, dualvm_error_free) {}

    dualvm_status status() const noexcept { return status_; }
    const dualvm_error *get() const noexcept { return error_.get(); }

  private:
    dualvm_status status_;
    // Exceptions are copied.
    std::shared_ptr<dualvm_error> error_;
};

// Calls a function of the C interface, whose last argument is where the error goes, which is left out.
template <typename... Params, typename... Args>
void call(dualvm_status (*function)(Params...), Args &&...args) {
    dualvm_error *error = nullptr;
    dualvm_status status = function(std::forward<Args>(args)..., &error);
    if (status != DUALVM_STATUS_OK) {
        throw Error(status, error);
    }
}

// A handle that frees itself.
template <typename Opaque, void (*free)(Opaque *)>
class Handle {
  public:
    explicit Handle(Opaque *handle = nullptr) noexcept : handle_(handle) {}
    Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Handle() { free(handle_); }

    Opaque *get() const noexcept { return handle_; }
    // Where the C interface puts a new handle. The one that was there is freed.
    Opaque **put() noexcept {
        free(std::exchange(handle_, nullptr));
        return &handle_;
    }

  private:
    Opaque *handle_;
};

using Bytes = Handle<dualvm_bytes, dualvm_bytes_free>;

class Cancel : public Handle<dualvm_cancel, dualvm_cancel_free> {
  public:
    Cancel() { call(dualvm_cancel_new, put()); }
    void request() const noexcept { dualvm_cancel_request(get()); }
};

class Options : public Handle<dualvm_options, dualvm_options_free> {
  public:
    Options() { call(dualvm_options_new, put()); }
    Options &untrusted() {
        call(dualvm_options_set_untrusted, get());
        return *this;
    }
    Options &limit(dualvm_limit limit, std::uint64_t value) {
        call(dualvm_options_set_limit, get(), limit, value);
        return *this;
    }
    Options &cancelled_by(const Cancel &cancel) {
        call(dualvm_options_set_cancel, get(), cancel.get());
        return *this;
    }
};

// The options where there may be none.
inline const dualvm_options *get(const Options *options) { return options ? options->get() : nullptr; }

// A function that is called with numbers and arrays. One thread's at a time.
class Frame : public Handle<dualvm_frame, dualvm_frame_free> {
  public:
    using Handle::Handle;
    using Values = std::vector<dualvm_value>;

    // The results. Their arrays are the frame's until its next call.
    Values call(const Values &args, std::size_t results) {
        Values found(results);
        dualvm::call(dualvm_call, get(), args.data(), args.size(), found.data(), found.size());
        return found;
    }

    // The value, and the gradient in one row.
    double value_and_grad(const Values &args, double *gradient, std::size_t len) {
        double value;
        dualvm::call(dualvm_value_and_grad_into, get(), args.data(), args.size(), &value, gradient, len);
        return value;
    }

    // The value, and the gradient by argument. Its arrays are the frame's until its next call.
    std::pair<double, Values> value_and_grad(const Values &args) {
        std::pair<double, Values> found(0, args.size());
        auto &[value, gradient] = found;
        dualvm::call(dualvm_value_and_grad, get(), args.data(), args.size(), &value, gradient.data(), gradient.size());
        return found;
    }
};

class Function : public Handle<dualvm_function, dualvm_function_free> {
  public:
    using Handle::Handle;

    std::string_view signature() const { return dualvm_function_signature(get()); }

    Function wrt(std::initializer_list<const char *> parameters) const {
        Function restricted;
        call(dualvm_function_wrt, get(), parameters.begin(), parameters.size(), restricted.put());
        return restricted;
    }

    Frame frame(const Options *options = nullptr) const {
        Frame frame;
        call(dualvm_frame_new, get(), dualvm::get(options), frame.put());
        return frame;
    }

    // With arguments and the answer in JSON.
    std::string json(std::string_view args, const Options *options = nullptr) const {
        return answer(dualvm_json_call, args, options);
    }
    std::string json_value_and_grad(std::string_view args, const Options *options = nullptr) const {
        return answer(dualvm_json_value_and_grad, args, options);
    }

  private:
    template <typename C>
    std::string answer(C function, std::string_view args, const Options *options) const {
        Bytes json;
        call(function, get(), args.data(), args.size(), dualvm::get(options), json.put(), nullptr);
        return std::string(dualvm_bytes_data(json.get()), dualvm_bytes_len(json.get()));
    }
};

class Module : public Handle<dualvm_module, dualvm_module_free> {
  public:
    using Handle::Handle;

    Function function(const char *name) const {
        Function function;
        call(dualvm_module_function, get(), name, function.put());
        return function;
    }
};

class Engine : public Handle<dualvm_engine, dualvm_engine_free> {
  public:
    explicit Engine(const dualvm_config *config = nullptr) { call(dualvm_engine_new, config, put()); }

    Module compile(const char *file, std::string_view source, const Options *options = nullptr) const {
        Module module;
        call(dualvm_module_from_source, get(), file, source.data(), source.size(), dualvm::get(options), module.put());
        return module;
    }
};

} // namespace dualvm

#endif
