# Simulates one long TCP flow over a link with random loss.
#
#   ns flows.tcl AGENT LOSS SEED [RTT_MS] [RATE_MBIT] [SECONDS] [WINDOW]
#
# AGENT is Reno, Newreno or Sack1. The sink is DelAck (or Sack1/DelAck), which
# acknowledges every second segment, or after 100 ms. Segments have 1460 bytes.
# The minimum RTO is 1 s, or MINRTO (s) of the environment. Losses are Bernoulli
# in the data direction, after the queue. Prints one CSV line:
#   agent,loss,seed,rtt_ms,rate_mbit,seconds,window,segments_acked,segments_sent,timeouts,fast

set agent [lindex $argv 0]
set loss [lindex $argv 1]
set seed [lindex $argv 2]
set rtt_ms [expr {$argc > 3 ? [lindex $argv 3] : 100}]
set rate [expr {$argc > 4 ? [lindex $argv 4] : 10}]
set seconds [expr {$argc > 5 ? [lindex $argv 5] : 1000}]
set window [expr {$argc > 6 ? [lindex $argv 6] : 1000}]
set minrto [expr {[info exists env(MINRTO)] ? $env(MINRTO) : 1.0}]

ns-random $seed
Agent/TCP set packetSize_ 1460
Agent/TCP set tcpip_base_hdr_size_ 40
Agent/TCP set window_ $window
Agent/TCP set maxcwnd_ 0
Agent/TCP set windowInit_ 2
Agent/TCP set minrto_ $minrto
Agent/TCP set tcpTick_ 0.001
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set overhead_ 0

set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b ${rate}Mb [expr {$rtt_ms / 2.0}]ms DropTail
$ns queue-limit $a $b 10000
$ns queue-limit $b $a 10000

set em [new ErrorModel]
$em unit pkt
$em set rate_ $loss
set rv [new RandomVariable/Uniform]
$em ranvar $rv
$em drop-target [new Agent/Null]
$ns lossmodel $em $a $b

if {$agent == "Sack1"} {
    set tcp [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1/DelAck]
} else {
    set tcp [new Agent/TCP/$agent]
    set sink [new Agent/TCPSink/DelAck]
}
$sink set interval_ 100ms
$ns attach-agent $a $tcp
$ns attach-agent $b $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp

proc finish {} {
    global tcp agent loss seed rtt_ms rate seconds window
    puts "$agent,$loss,$seed,$rtt_ms,$rate,$seconds,$window,[$tcp set ack_],[$tcp set ndatapack_],[$tcp set nrexmit_],[$tcp set ncwndcuts_]"
    exit 0
}
$ns at 0.0 "$ftp start"
$ns at $seconds "finish"
$ns run
