//! Bytes and text from anywhere: an error or a module, never a panic, and no more memory than the input pays for.

mod support;

use dualvm_vm::binary::{decode, encode};
use dualvm_vm::module::ModuleDef;
use dualvm_vm::text::{parse, print};
use dualvm_vm::verify::verify;
use support::{Random, from_roles, verified};

/// What decodes has one encoding, and verifying, printing and parsing it ends well.
fn check_bytes(bytes: &[u8]) {
    let Ok(module) = decode(bytes) else { return };
    assert!(encode(&module).expect("decoded lists are in their pools") == bytes, "{bytes:x?}");
    if let Err(errors) = verify(&module) {
        errors.iter().for_each(|error| assert!(!error.to_string().is_empty()));
    }
    check_text(&module);
}

/// What prints parses to what prints the same.
fn check_text(module: &ModuleDef) {
    let text = print(module);
    let parsed = parse(&text, "test.dvs").unwrap_or_else(|errors| panic!("{}", errors[0]));
    assert!(print(&parsed) == text, "{text}");
}

fn bytes() -> Vec<u8> {
    encode(&verified()).expect("lists are in their pools")
}

#[test]
fn truncated_modules_are_refused() {
    let bytes = bytes();
    assert!((0..bytes.len()).all(|len| decode(&bytes[..len]).is_err()));
}

#[test]
fn corrupted_modules_end_well() {
    let mut bytes = bytes();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for at in 0..bytes.len() {
        let old = bytes[at];
        let flips = (0..8).map(|bit| old ^ (1 << bit));
        let more = [0, 1, 0x7f, 0x80, 0xff, random.number() as u8];
        for new in flips.chain(more).filter(|&new| new != old) {
            bytes[at] = new;
            check_bytes(&bytes);
        }
        bytes[at] = old;
    }
}

#[test]
fn random_bytes_after_the_header_end_well() {
    let mut random = Random(1);
    for _ in 0..50_000 {
        let len = random.below(64);
        let mut bytes = b"DVBC\x01\x00".to_vec();
        bytes[4] += u8::from(random.below(8) == 0);
        // Mostly small numbers, which get further.
        bytes.extend((0..len).map(|_| random.number() as u8 & if random.below(4) == 0 { 0xff } else { 7 }));
        check_bytes(&bytes);
    }
}

#[test]
fn huge_counts_are_refused_before_memory_is_taken() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    for section in 1..=8 {
        for shift in 0..4 {
            let mut bytes = b"DVBC\x01\x00".to_vec();
            let content = [&[1; 4][..shift], &huge, &[0; 4]].concat();
            bytes.extend([section, content.len() as u8]);
            bytes.extend(content);
            assert!(decode(&bytes).is_err());
        }
    }
}

#[test]
fn deep_types_are_refused_without_recursion() {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        parse(&format!("func \"f\" () -> ()\nexport () -> {open}Real{close}\n{{\nret ()\n}}"), "deep.dvs")
    };
    for (open, close) in
        [("(", ")"), ("(", ",)"), ("{ a : ", "}"), ("Array ", " @t0"), ("Array (", ") @t0"), ("List ", " @t0")]
    {
        assert!(deep(open, close).is_err());
    }
    let mut bytes = bytes();
    bytes.truncate(6);
    let function = b"\x04\x0a\x01\x01f\0\0\0\0\0\x01\x60\0\0";
    bytes.extend(function);
    for tag in [[3, 1], [5, 5], [6, 6]] {
        let mut deep = bytes.clone();
        deep.extend([5, 0xff, 0x7f, 1, 0, 0]);
        deep.extend(tag.repeat(8190));
        assert!(decode(&deep).is_err());
    }
}

#[test]
fn damaged_text_ends_well() {
    let text = print(&verified());
    let mut random = Random(2);
    for _ in 0..3000 {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + random.below(4) {
            let at = random.below(chars.len());
            let junk = ['"', '(', ')', '{', '}', ',', ':', '\n', '-', '@', '\\', 'λ', '0', 'x', '\0', ';', '\u{85}'];
            match random.below(3) {
                0 => chars[at] = junk[random.below(junk.len())],
                1 => chars.insert(at, junk[random.below(junk.len())]),
                _ => drop(chars.drain(at..(at + random.below(20)).min(text.chars().count().min(chars.len())))),
            }
        }
        let damaged: String = chars.into_iter().collect();
        match parse(&damaged, "damaged.dvs") {
            Ok(module) => {
                let _ = verify(&module);
                check_text(&module);
            }
            Err(errors) => {
                assert!((1..=100).contains(&errors.len()));
                errors.iter().for_each(|error| assert!(error.to_string().contains("damaged.dvs")));
            }
        }
    }
}

#[test]
fn text_cut_anywhere_ends_well() {
    let text = print(&verified());
    for (at, _) in text.char_indices() {
        let _ = parse(&text[..at], "cut.dvs");
        let _ = parse(&text[at..], "cut.dvs");
    }
}

#[test]
fn thousands_of_mistakes_take_no_time() {
    let unknown = "  jmup nowhere\n".repeat(50_000);
    let labels: String = (0..50_000).map(|n| format!("a{n}: jump b{n}\n")).collect();
    for code in [unknown, labels] {
        let errors = parse(&format!("func \"f\" () -> ()\n{{\n{code}}}"), "mistakes.dvs").unwrap_err();
        assert_eq!(errors.len(), 100);
    }
}

#[test]
fn what_no_verifier_accepts_ends_well_too() {
    let module = from_roles();
    assert!(!verify(&module).unwrap_err().is_empty());
}
