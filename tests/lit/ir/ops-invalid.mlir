// RUN: cleave-opt %s --verify-diagnostics --split-input-file
// What each operation's verifier refuses.

func.func @f() {
  // expected-error @below {{found result 'i64', expected a tensor}}
  %0 = cleave.param "w" {role = "parameter"} : i64
  return
}

// -----

func.func @param() {
  // expected-error @below {{found a number for parameter 'tensor<f32>', expected a constant floating-point tensor without dimensions}}
  %0 = cleave.param "w" {role = "parameter", number = 0.5 : f64} : tensor<f32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found role "weight", expected parameter, buffer or constant}}
  %0 = cleave.param "w" {role = "weight"} : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found 2 integers for 'tensor<3xi64>'}}
  %0 = cleave.param "w" {role = "constant", integers = array<i64: 1, 2>} : tensor<3xi64>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found 1 integers for 'tensor<f32>'}}
  %0 = cleave.param "w" {role = "constant", integers = array<i64: 1>} : tensor<f32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{requires attribute 'role'}}
  %0 = cleave.param "w" : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value "one", which is no constant of type 'i64'}}
  %0 = cleave.constant("one") : i64
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value 1 : i32, which is no constant of type 'i64'}}
  %0 = cleave.constant(1 : i32) : i64
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value 0 : i64, which is no constant of type 'none'}}
  %0 = cleave.constant(0 : i64) : none
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value 1 : i64, which is no constant of type '!cleave.str'}}
  %0 = cleave.constant(1 : i64) : !cleave.str
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value "one", which is no constant of type '!cleave.number'}}
  %0 = cleave.constant("one") : !cleave.number
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value "one", which is no constant of type '!cleave.optional<i64>'}}
  %0 = cleave.constant("one") : !cleave.optional<i64>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value [1, "two"], which is no constant of type '!cleave.list<i64>'}}
  %0 = cleave.constant([1, "two"]) : !cleave.list<i64>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found value [1], which is no constant of type 'tuple<i64, i64>'}}
  %0 = cleave.constant([1]) : tuple<i64, i64>
  return
}

// -----

func.func @f() {
  // expected-error @below {{which is no constant of type 'tensor<2xf32>'}}
  %0 = cleave.constant(dense<0.0> : tensor<2xf32>) : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{found "1 + batch", expected a canonical size such as "12*batch + 1"}}
  %0 = cleave.size "1 + batch"
  return
}

// -----

func.func @f() {
  // expected-error @below {{found "?", expected a canonical size such as "12*batch + 1"}}
  %0 = cleave.size "?"
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{found result 'i64', expected a list}}
  %0 = cleave.list(%n) : (i64) -> i64
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{found result 'tuple<i64>', expected a tuple of 2 items}}
  %0 = cleave.tuple(%n, %n) : (i64, i64) -> tuple<i64>
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{found result '!cleave.list<i64>', expected a dict}}
  %0 = cleave.dict(%n, %n) : (i64, i64) -> !cleave.list<i64>
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{found a key without a value}}
  %0 = cleave.dict(%n) : (i64) -> !cleave.dict<i64, i64>
  return
}

// -----

func.func @f(%t: tuple<i64, i64>) {
  // expected-error @below {{found 1 results for a tuple of 2}}
  %0 = cleave.unpack %t : (tuple<i64, i64>) -> i64
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{found 'i64', expected a tuple or a list}}
  %0 = cleave.unpack %n : (i64) -> i64
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{operand #0 must be 1-bit signless integer, but got 'i64'}}
  %0 = "cleave.if"(%n) ({
    cleave.yield %n : i64
  }, {
    cleave.yield %n : i64
  }) : (i64) -> i64
  return
}

// -----

func.func @f(%c: i1, %n: i64) {
  // expected-error @below {{then region yields 0 values, expected 1}}
  %0 = cleave.if %c : i64 {
    cleave.yield
  } else {
    cleave.yield %n : i64
  }
  return
}

// -----

func.func @f(%c: i1, %n: i64) {
  // expected-error @below {{else region yields 2 values, expected 1}}
  %0 = cleave.if %c : i64 {
    cleave.yield %n : i64
  } else {
    cleave.yield %n, %n : i64, i64
  }
  return
}

// -----

func.func @f(%c: i1, %n: i64) -> i64 {
  // expected-error @below {{then region must end in cleave.yield}}
  %0 = cleave.if %c : i64 {
    func.return %n : i64
  } else {
    cleave.yield %n : i64
  }
  return %0 : i64
}

// -----

func.func @f(%c: i1, %n: i64) {
  // expected-error @below {{found 1 initial values for 0 results}}
  cleave.loop(%n, %c, %n) : (i64) -> () {
  ^bb0(%i: i64, %carried: i64):
    cleave.yield %c, %carried : i1, i64
  }
  return
}

// -----

func.func @f(%c: i1, %n: i64) {
  // expected-error @below {{found 1 block arguments, expected the iteration and the carried values}}
  %0 = cleave.loop(%n, %c, %n) : (i64) -> i64 {
  ^bb0(%i: i64):
    cleave.yield %c, %i : i1, i64
  }
  return
}

// -----

func.func @f(%c: i1, %n: i64) {
  // expected-error @below {{body yields 1 values, expected 2}}
  %0 = cleave.loop(%n, %c, %n) : (i64) -> i64 {
  ^bb0(%i: i64, %carried: i64):
    cleave.yield %carried : i64
  }
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{found block arguments 'f64', expected the inputs' types 'i64'}}
  cleave.stage 0(%n) : (i64) -> () {
  ^bb0(%inside: f64):
    cleave.yield
  }
  return
}

// -----

func.func @f(%n: i64) {
  // expected-error @below {{body yields 0 values, expected 1}}
  %0 = cleave.stage 0(%n) : (i64) -> i64 {
  ^bb0(%inside: i64):
    cleave.yield
  }
  return
}

// -----

// A stage has what it was given and nothing else: it runs on another device.
func.func @f(%n: i64) {
  // expected-note @below {{required by region isolation constraints}}
  %0 = cleave.stage 0() : () -> i64 {
    // expected-error @below {{using value defined outside the region}}
    cleave.yield %n : i64
  }
  return
}
