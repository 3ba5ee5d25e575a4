//! Our TCP engine meets the TCP of the kernel it runs on, over a TUN device.
