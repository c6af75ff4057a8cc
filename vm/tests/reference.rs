//! The reference page in `docs/` is what the instruction table says.

use dualvm_vm::reference::instructions_markdown;
use std::fs;

#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/instructions.md");
    if std::env::var_os("DUALVM_BLESS").is_some_and(|value| value == "1") {
        fs::write(path, instructions_markdown()).expect("the page can be written");
    }
    let page = fs::read_to_string(path).expect("the page is in the repository");
    assert_eq!(page, instructions_markdown(), "run DUALVM_BLESS=1 cargo test -p dualvm-vm --test reference");
}
