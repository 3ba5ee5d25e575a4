//! Tests that mutants of a source text are found. The text written from them must contain, for each mutant, the call
//! that switches the mutant on.

use crate::find;
use crate::write::write;

fn written(source: &str) -> String {
    let found = find::mutants(source).expect("it parses");
    let numbered: Vec<_> = found.iter().enumerate().collect();
    let text = write(source, &numbered).text;
    syn::parse_file(&text).expect("what is written parses");
    text
}

#[test]
fn an_operator_stands_behind_a_switch() {
    assert_eq!(
        written("const fn f() {} const A: u8 = 1 + 2; fn f(a: u8) -> T { a == 1 }")
            .replace("crate::mutant", "m"),
        "const fn f() {} const A: u8 = 1 + 2; fn f(a: u8) -> T { if m(0) { return Default::default(); } \
         (if m(1) { a != 1 } else { a == 1 }) }"
    );
}

#[test]
fn mutants_within_mutants_are_in_both_branches() {
    assert_eq!(
        written("fn f() { if !(a && b) { g(); } }").replace("crate::mutant", "m"),
        "fn f() { if m(0) { return (); } if (if m(1) { ((if m(2) { a || b } else { a && b })) } else { \
         !((if m(2) { a || b } else { a && b })) }) { if !m(3) { g(); } } }"
    );
}

#[test]
fn an_arm_is_deleted_where_another_takes_its_values() {
    assert_eq!(
        written("fn f() -> &str { match a { 1 => x, n if n > 2 => y, _ => z } }").matches("mutant").count(),
        5
    );
    assert_eq!(written("fn f() -> &str { match a { A => x, B => y } }").matches("mutant").count(), 0);
}

#[test]
fn conditions_that_bind_names_stay_in_one_piece() {
    let text = written("fn f() -> &str { if let Some(a) = b && a < 3 && !c { d } else { e } }");
    assert!(text.contains("if let Some(a) = b && (if crate::mutant(0) { a <= 3 }"), "{text}");
}

#[test]
fn a_body_that_gives_the_value_already_stays() {
    for source in ["fn f() -> bool { false }", "fn f(a: u8) -> bool { let _ = a; false }"] {
        let text = written(source);
        assert!(text.contains("return true;") && !text.contains("return false;"), "{text}");
    }
    assert_eq!(written("fn f(a: u8) { let _ = a; }").matches("mutant").count(), 0);
}

#[test]
fn tests_and_debug_have_no_mutants() {
    let source = "#[cfg(test)] mod tests { fn f() { g(); } } impl fmt::Debug for A { fn fmt() { g(); } }";
    assert_eq!(written(source), source);
}
