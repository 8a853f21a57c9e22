

qwen3.golden"ù
qwen3_reference
numpy2.4.6
python3.11.7

tokenizers0.23.3
torch
2.13.0+cpu
transformers5.23.0linux-x86_64")cpu AVX512 avx512_bf16 AuthenticAMD 25 17(:!
deterministic_algorithmsfalse:#
float32_matmul_precisionhighest*Ó
tokenization/chat_members*3
	tokenizertiny IfíuÓwš’)i7öÈUX0¿€”êLs¥|Vë¶BTKS-02BTKS-12JmMessages and tools as JSON: other names of reasoning, null, floats, keys that stand twice, no tools, no text.2renderedrendered_idsJ£x"Õ
thinking÷[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "thinking": "\nMeasure.\n"}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "thinking": "\nMeasure.\n"}] 2Ü<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>
Measure.
</think>

The northern one.<|im_end|>
<|im_start|>assistant
:nş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"ï!ŠÁìĞ
¥–"©Æš©Œ´ÿ!ï!ş!…µöï!"Ø
	reasoningù[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "reasoning": "\nMeasure.\n"}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "reasoning": "\nMeasure.\n"}] 2Ü<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>
Measure.
</think>

The northern one.<|im_end|>
<|im_start|>assistant
:nş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"ï!ŠÁìĞ
¥–"©Æš©Œ´ÿ!ï!ş!…µöï!"ı
reasoning_and_thinking—[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "reasoning": "third", "thinking": "second"}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "reasoning": "third", "thinking": "second"}] 2Ú<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>
second
</think>

The northern one.<|im_end|>
<|im_start|>assistant
:jş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"ï!Üµï!–"©Æš©Œ´ÿ!ï!ş!…µöï!"±
all_three_namesÓ[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "reasoning": "third", "thinking": "second", "reasoning_content": "first"}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "reasoning": "third", "thinking": "second", "reasoning_content": "first"}] 2Ù<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>
first
</think>

The northern one.<|im_end|>
<|im_start|>assistant
:jş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"ï!ú!Èï!–"©Æš©Œ´ÿ!ï!ş!…µöï!"¦
null_is_left_outÅ[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "reasoning_content": null, "thinking": null, "reasoning": "third"}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "reasoning_content": null, "thinking": null, "reasoning": "third"}] 2Ù<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>
third
</think>

The northern one.<|im_end|>
<|im_start|>assistant
:lş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"ï!—Ó°ï!–"©Æš©Œ´ÿ!ï!ş!…µöï!"í
empty_is_not[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "reasoning_content": "", "thinking": "second"}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "reasoning_content": "", "thinking": "second"}] 2Ô<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>

</think>

The northern one.<|im_end|>
<|im_start|>assistant
:dş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"©–"©Æš©Œ´ÿ!ï!ş!…µöï!"³
all_nullç[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "reasoning_content": null, "thinking": null, "reasoning": null, "tool_calls": null}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "reasoning_content": null, "thinking": null, "reasoning": null, "tool_calls": null}] 2Ô<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>

</think>

The northern one.<|im_end|>
<|im_start|>assistant
:dş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"©–"©Æš©Œ´ÿ!ï!ş!…µöï!"¨
no_textİ[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "The northern one.", "thinking": 5}, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "The northern one.", "thinking": 5}] 2Ô<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
The northern one.<|im_end|>
<|im_start|>user
And then?<|im_end|>
<|im_start|>assistant
<think>

</think>

The northern one.<|im_end|>
<|im_start|>assistant
:dş!Mï!ïÛÖÿ!ï!ş!…µöï!Æš©Œ´ÿ!ï!ş!Mï!Â°¬Öÿ!ï!ş!…µöï!•"©–"©Æš©Œ´ÿ!ï!ş!…µöï!"®
null_contentsr[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": null}, {"role": "user", "content": null}] 2u<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<|im_end|>
<|im_start|>user
<|im_end|>
<|im_start|>assistant
:0ş!Mï!ïÛÖÿ!ï!ş!…µöï!ÿ!ï!ş!Mï!ÿ!ï!ş!…µöï!"é
no_contentsb[{"role": "user", "content": "Which?"}, {"role": "assistant"}, {"role": "user"}, {"role": "tool"}] 2²<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<|im_end|>
<|im_start|>user
<|im_end|>
<|im_start|>user
<tool_response>

</tool_response><|im_end|>
<|im_start|>assistant
:?ş!Mï!ïÛÖÿ!ï!ş!…µöï!ÿ!ï!ş!Mï!ÿ!ï!ş!Mï!“"©”"ÿ!ï!ş!…µöï!"£
contents_in_partsC[{"role": "user", "content": [{"type": "text", "text": "Which?"}]}] 22<|im_start|>user
<|im_end|>
<|im_start|>assistant
:ş!Mï!ÿ!ï!ş!…µöï!" 
member_twice;[{"role": "user", "content": "first", "content": "second"}] 28<|im_start|>user
second<|im_end|>
<|im_start|>assistant
:ş!Mï!Üµÿ!ï!ş!…µöï!"
member_twice_then_nullc[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "first", "content": null}] 2l<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<|im_end|>
<|im_start|>assistant
:/ş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©ÿ!ï!ş!…µöï!"œ
no_callsd[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "None.", "tool_calls": []}] 2q<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

None.<|im_end|>
<|im_start|>assistant
:5ş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‡´ÿ!ï!ş!…µöï!"½
another_roleV[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Which?"}] 28<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:ş!Mï!ïÛÖÿ!ï!ş!…µöï!"õ
answer_firstS[{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Which?"}] 2_<|im_start|>assistant
Hello.<|im_end|>
<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:-ş!…µöï!Ù â´ÿ!ï!ş!Mï!ïÛÖÿ!ï!ş!…µöï!"ÿ

tool_firstI[{"role": "tool", "content": "7"}, {"role": "user", "content": "Which?"}] 2v<|im_start|>user
<tool_response>
7
</tool_response><|im_end|>
<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:,ş!Mï!“"ï!Ÿï!”"ÿ!ï!ş!Mï!ïÛÖÿ!ï!ş!…µöï!"¡
system_alone,[{"role": "system", "content": "Be brief."}] 2=<|im_start|>system
Be brief.<|im_end|>
<|im_start|>assistant
:"ş!¶¹ï!ªÁ—Ìú!´ÿ!ï!ş!…µöï!"Ø
escapesP[{"role": "user", "content": "\u00e9 \ud83d\ude00 \/ \t\u0001 \"q\" \\ \u2028"}] 2H<|im_start|>user
Ã© ğŸ˜€ / 	 "q" \ â€¨<|im_end|>
<|im_start|>assistant
:/ş!Mï!¯Å½ŸÅ‰×”¼ÍÆÂÇ¢ÿ!ï!ş!…µöï!"¤	
floatsç[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": {"a": 1.0, "b": 0.10, "c": 1e16, "d": 1E-5, "e": -0.0, "f": 1e5, "g": 123456789.123, "h": 1e22, "i": 5e-324, "j": 1.7976931348623157e308, "k": 0.0001, "l": 9007199254740993.0, "m": 2.5e-7, "n": 100000000000000000000.5}}}]}] 2ö<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {"a": 1.0, "b": 0.1, "c": 1e+16, "d": 1e-05, "e": -0.0, "f": 100000.0, "g": 123456789.123, "h": 1e+22, "i": 5e-324, "j": 1.7976931348623157e+308, "k": 0.0001, "l": 9007199254740992.0, "m": 2.5e-07, "n": 1e+20}}
</tool_call><|im_end|>
<|im_start|>assistant
:´ş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯Ãî¯‰Ë´„²¼é¯‰„´Ë²¼©¯‰ËÁËÈ	²¼°¯‰ËÁ™„¼²¼Á¯ô	„´„²¼ú!¯‰Ë„„„„„´„²¼¿¯‰ËÂÄ¼È	Ÿİø´ËÂ²¼€¯‰ËÁÂÂ²¼Ü ¯‰¼Á™ÂÄ²¼Ä¯‰Ë´ŸøŸÈ	øËÄİÈ	ÂË¼ŸÁ„İ²¼İ¯‰„´„„„Ë²¼¤¯‰ø„„ŸËøøÂ¼ÄŸÄ„øøÂ´„²¼¦	¯‰Â´¼Á™„Ÿ²¼©¯‰ËÁÂ„îêŒ"ÿ!ï!ş!…µöï!"–
integersÓ[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": {"a": -0, "b": 9007199254740993, "c": 1180591620717411303424, "d": -7}}}]}] 2ê<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {"a": 0, "b": 9007199254740993, "c": 1180591620717411303424, "d": -7}}
</tool_call><|im_end|>
<|im_start|>assistant
:Äş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯Ãî¯‰„²¼é¯‰ø„„ŸËøøÂ¼ÄŸÄ„øø²¼©¯‰ËËİ„¼øËÈ	Â„ŸËŸÄËË„ÄÂÄ²¼°¯ô	ŸîêŒ"ÿ!ï!ş!…µöï!"”

keys_twice¾[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": {"a": 1, "b": {"x": 1, "x": [2]}, "a": 3, "c": 4}}}]}] 2Æ<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {"a": 3, "b": {"x": [2]}, "c": 4}}
</tool_call><|im_end|>
<|im_start|>assistant
:zş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯Ãî¯‰²¼é¯Ã–¯†Âí
î²¼©¯‰ÄîêŒ"ÿ!ï!ş!…µöï!"°
keys_in_their_orderº[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": {"z": 1, "10": 2, "9": 3, "": 4, "\u00e9": 5}}}]}] 2Î<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {"z": 1, "10": 2, "9": 3, "": 4, "Ã©": 5}}
</tool_call><|im_end|>
<|im_start|>assistant
:ˆş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯Ãá ¯‰Ë²¼Ë„¯‰Â²¼ø¯‰²¼¯‰Ä²¼¯¯‰¼îêŒ"ÿ!ï!ş!…µöï!"
nulls_insideº[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": {"a": null, "b": [null, true, false, {}, []]}}}]}] 2Ò<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {"a": null, "b": [null, true, false, {}, []]}}
</tool_call><|im_end|>
<|im_start|>assistant
:zş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯Ãî¯‚²¼é¯†©Ú²İ!²Ó²î²†í
í
îêŒ"ÿ!ï!ş!…µöï!"Ä
texts_insideÎ[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": {"a": "\u00e9\ud83d\ude00 \/ \t\u0001\u007f\u2028 \"q\" \\ <&'>"}}}]}] 2Ñ<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {"a": "Ã©ğŸ˜€ / \t\u0001â€¨ \"q\" \\ <&'>"}}
</tool_call><|im_end|>
<|im_start|>assistant
:Œş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯Ãî¯¼¯‰½ŸÅÂøÌ¤„„„Ëñã¢ÂÆÍÌÆ‰³ğĞáÇÏêŒ"ÿ!ï!ş!…µöï!"¢
arguments_null‘[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": null}}]}] 2©<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": null}
</tool_call><|im_end|>
<|im_start|>assistant
:Nş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯‚êŒ"ÿ!ï!ş!…µöï!"°
arguments_a_number[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": 1e2}}]}] 2ª<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": 100.0}
</tool_call><|im_end|>
<|im_start|>assistant
:Xş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯‰Ë„„´„êŒ"ÿ!ï!ş!…µöï!"¶
arguments_a_list•[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "depth", "arguments": [1, "a"]}}]}] 2­<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": [1, "a"]}
</tool_call><|im_end|>
<|im_start|>assistant
:Xş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯†Ë²¼î«êŒ"ÿ!ï!ş!…µöï!"¢
function_empty‘[{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {}, "name": "depth", "arguments": {}}]}] 2§<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
<think>

</think>

<tool_call>
{"name": "depth", "arguments": {}}
</tool_call><|im_end|>
<|im_start|>assistant
:Pş!Mï!ïÛÖÿ!ï!ş!…µöï!•"©–"©‹"ï!¤ß¯¼‘™—¼®¯îêŒ"ÿ!ï!ş!…µöï!"‘
tools_empty'[{"role": "user", "content": "Which?"}][] 28<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:ş!Mï!ïÛÖÿ!ï!ş!…µöï!"‰
tools_empty_after_systemS[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}][] 2_<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:1ş!¶¹ï!ªÁ—Ìú!´ÿ!ï!ş!Mï!ïÛÖÿ!ï!ş!…µöï!"ï
tools_and_no_system_textJ[{"role": "system", "content": ""}, {"role": "user", "content": "Which?"}][{"name": "depth"}] 2ª<|im_start|>system


# Functions

These functions can be called, one JSON object a line:
<tools>
{"name": "depth"}
</tools>

A call is a JSON object between two tags:
<tool_call>
{"name": <name>, "arguments": <object>}
</tool_call><|im_end|>
<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:Âş!¶¹Ø}©!¢Å©¢€Å©	ÅÛ…’À°²Œ³ˆŠ”³²ƒúì	±£¶™¤ß¯¼‘™—Æê±£¶Ñé
¦!ì²³ˆŠ”³î‚óÙ‹¶ú‹"ï!¤ß¯ğßÇ²¼®¯ğ³ÇêŒ"ÿ!ï!ş!Mï!ïÛÖÿ!ï!ş!…µöï!"¦
tools_with_numbers'[{"role": "user", "content": "Which?"}]`[{"name": "depth", "default": 1e2, "least": -0.0, "unit": null, "a": 1, "a": 2, "more": {}}, {}] 2î<|im_start|>system
# Functions

These functions can be called, one JSON object a line:
<tools>
{"name": "depth", "default": 100.0, "least": -0.0, "unit": null, "a": 2, "more": {}}
{}
</tools>

A call is a JSON object between two tags:
<tool_call>
{"name": <name>, "arguments": <object>}
</tool_call><|im_end|>
<|im_start|>user
Which?<|im_end|>
<|im_start|>assistant
:‘ş!¶¹ï!}©!¢Å©¢€Å©	ÅÛ…’À°²Œ³ˆŠ”³²ƒúì	±£¶™¤ß¯¼‘™—¼ïÏ¯‰Ë„„´„²¼À¯ô	„´„²¼ê‡¯‚²¼î¯‰Â²¼¦	²¯îêÑê±£¶Ñé
¦!ì²³ˆŠ”³î‚óÙ‹¶ú‹"ï!¤ß¯ğßÇ²¼®¯ğ³ÇêŒ"ÿ!ï!ş!Mï!ïÛÖÿ!ï!ş!…µöï!z" Ù¤xõ}rúÒÌgÄU:-Îq^J¡¼~ #âşŞ~