//! The laboratory as WebAssembly, which a page in a browser runs in its workers.
//!
//! The page calls one function, [`anabranch_answer`]. The request is JSON on standard input, and the answer is JSON on
//! standard output. Files, such as a HAR or a capture, are in the file system of the WebAssembly program, which is in
//! memory. The module has no other interface: no pointer crosses it, and it has no network and no clock that matters.
//!
//! A worker holds one plan and the runs it was given ([`lab`]). Each run is a job with a number, so the page can share
//! the jobs among its workers. One of the workers gets all runs, and makes the answer and the files of them. Requests and
//! answers are in [`protocol`], the tables that the page's forms are made of in [`tables`], and the packets of a run over
//! time in [`motion`].
//!
//! A panic ends the WebAssembly program. The page then says so and starts another worker.

pub mod lab;
pub mod motion;
pub mod outputs;
pub mod protocol;
pub mod tables;

use anabranch_transports::Transports;
use std::cell::RefCell;
use std::io::{Read, Write};

thread_local! {
    /// The laboratory of this worker.
    static LAB: RefCell<lab::Lab> = RefCell::new(lab::Lab::default());
}

/// Returns the transports that can race in a browser: all that the simulated network has.
fn transports() -> Transports {
    Transports::standard()
}

/// Reads a request from standard input, and writes its answer to standard output.
#[expect(unsafe_code, reason = "the name under which the page finds the function")]
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_answer() {
    let mut request = String::new();
    let answer = match std::io::stdin().read_to_string(&mut request) {
        Ok(_) => LAB.with_borrow_mut(|lab| protocol::answer(lab, &request)),
        Err(error) => protocol::refusal(&format!("the request cannot be read: {error}")),
    };
    let mut out = std::io::stdout().lock();
    // The page notices an answer that is cut.
    let _ = out.write_all(answer.as_bytes()).and_then(|()| out.flush());
}
