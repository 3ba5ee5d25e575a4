//! Links the BoringSSL of Debian's android-libboringssl-dev, which is not in the default library path.

fn main() {
    let place = std::env::var("BORINGSSL").unwrap_or_else(|_| "/usr/lib/x86_64-linux-gnu/android".into());
    println!("cargo:rerun-if-env-changed=BORINGSSL");
    println!("cargo:rustc-link-search=native={place}");
    println!("cargo:rustc-link-lib=ssl");
    println!("cargo:rustc-link-lib=crypto");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{place}");
}
