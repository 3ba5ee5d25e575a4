# What ns-2.csv and ns-2-loss.csv hold: ns ns-2.tcl PROTO RATE(Mbit/s) RTT(ms) BYTES LOSS SEED WINDOW, with tcp .. 536 .. 20, or sctp .. 528 .. 0, or
# sctp .. 1452 .. 0; loss 0, or 0.01 and 0.02 with seeds 1 to 1000. Data is what has more than 100 bytes: from the first that node 0 sends to the last that node 1 receives.
set proto [lindex $argv 0]; set rate [lindex $argv 1]; set rtt [lindex $argv 2]; set chunk [lindex $argv 3]; set loss [lindex $argv 4]; set seed [lindex $argv 5]; set win [lindex $argv 6]
ns-random [expr ($seed*7654321+987654) % 2147483647]
set junk [new RandomVariable/Uniform]; for {set i 0} {$i < 50} {incr i} { $junk value }
set ns [new Simulator]
set f [open out.tr w]
$ns trace-all $f
set n0 [$ns node]; set n1 [$ns node]
$ns duplex-link $n0 $n1 ${rate}Mb [expr $rtt/2.0]ms DropTail
$ns queue-limit $n0 $n1 50; $ns queue-limit $n1 $n0 50
if {$loss > 0} {
 foreach {a b} [list $n0 $n1 $n1 $n0] {
  set em [new ErrorModel]; $em unit pkt; $em set rate_ $loss; $em ranvar [new RandomVariable/Uniform]; $em drop-target [new Agent/Null]
  $ns lossmodel $em $a $b
 }
}
if {$proto == "tcp"} {
  set s [new Agent/TCP/Sack1]; set r [new Agent/TCPSink/Sack1/DelAck]
  $s set packetSize_ $chunk; $s set window_ $win
  $ns attach-agent $n0 $s; $ns attach-agent $n1 $r; $ns connect $s $r
  set app [new Application/FTP]; $app attach-agent $s
  $ns at 0.0 "$app produce [expr int(ceil(67800.0/$chunk))]"
} else {
  set s [new Agent/SCTP]; set r [new Agent/SCTP]
  foreach a [list $s $r] { $a set dataChunkSize_ [expr $chunk+16]; $a set mtu_ [expr $chunk+16+12+20]; $a set numOutStreams_ 1; $a set useDelayedSacks_ 1 }
  $ns attach-agent $n0 $s; $ns attach-agent $n1 $r; $ns connect $s $r
  set app [new Application/FTP]; $app attach-agent $s
  $ns at 0.0 "go"
  proc go {} { global app chunk; set left 67800; while {$left > 0} { set n [expr $left < $chunk ? $left : $chunk]; $app send $n; set left [expr $left-$n] } }
}
$ns at 150 "finish"
proc finish {} { global ns f; $ns flush-trace; close $f; exit 0 }
$ns run
