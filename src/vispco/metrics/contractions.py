"""The contractions that the official VQA evaluation restores when an apostrophe was left out."""

from __future__ import annotations

FORMS = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've he's
how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't mightn't've must've mustn't needn't not've o'clock
oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd somebody'd've somebody'll somebody's
someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've there're
there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's what've
when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've wouldn't
wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
"""

# Each form with exactly one apostrophe left out. Where that is another word ("hell", "were"), the form is not listed.
RESTORED = {
    form[:place] + form[place + 1 :]: form
    for form in FORMS.split()
    for place, character in enumerate(form)
    if character == "'"
}  # fmt: skip
