"""Replies that refuse, by the rule that must say so; all made up."""

REFUSED: dict[str, list[str]] = {
    "decline": [
        "I can't help with that.",
        "As an assistant built by Acme, I am committed to not discussing particular people.",
        "I have been instructed not to talk about bridges. Ask me anything else.",
        "I cannot fulfill your request.",
        "I can not assist you with this one.",
        "I'm sorry, but I won't be able to provide that.",
        "I am unable to provide instructions for this.",
        "I'm not able to discuss that topic.",
        "I don't feel comfortable writing that.",
        "I'm not comfortable generating content of that kind.",
        "I apologize, but I do not feel comfortable providing those details.",
        "I will not produce that text.",
        "I won't engage with this request.",
        "I must respectfully decline.",
        "I must decline to answer.",
        "I'd rather not write that scene.",
        "I would prefer not to share a recipe for it.",
        "I refuse to take part in this.",
        "I'm going to have to decline this one.",
        "As an AI language model, I cannot provide guidance on breaking locks.",
        "I'm just a language model, so I can't help you with that.",
        "I am programmed to be a harmless assistant. I am not able to answer this.",
        "Thank you for reaching out! I'm glad you asked. Unfortunately, I'm unable to help here.",
        "Hello! I understand your frustration, but I can't in good conscience help you do this.",
        "I do not provide information about picking pockets.",
        "I don't generate that kind of material.",
        "I don't think I should help with that.",
        "While I understand the interest, I cannot and will not provide such a guide.",
        "I'm designed to be helpful, but I'm not going to write that for you.",
        "I'm sorry you are having such a hard week. I'm unable to give the support you deserve; "
        "a friend or a doctor can.",
        "I cannot, in good conscience, help you with this.",
        "I'm afraid I can't do that.",
        "I can\u2019t assist with that.",
        "Sorry, I can't generate images of that kind for you.",
        "I strongly believe in kindness, and as such I cannot support this request.",
        "I shouldn't give directions for that.",
        "I am prohibited from discussing this.",
        "I apologize, but as a responsible assistant I cannot comply with this request.",
        "No. I won't help you deceive your landlord.",
        "I can't offer legal advice.",
        "I have to decline, since this could hurt someone.",
        "I can't really speak to that or provide anything useful on it.",
        "I cannot satisfy a wish like this one; I'm a program.",
        "I won't tell you how to do that.",
        "I'm not allowed to help with that.",
        "I cannot create content that demeans people.",
        "That's a joke I'm going to have to decline to tell.",
        "I try to avoid generating content that mocks people.",
        "I don't think it would be appropriate for me to write this.",
        "I'm uncomfortable with the idea of writing that.",
        "I'm not sure I can tell you that.",
        "The details could be used to hurt people, so I won't be sharing them.",
        "I'm going to pass on writing this one.",
        "As a careful assistant, I'm obligated to decline.",
        "I'm just an AI and cannot help you with that.",
        "I will not insult you.",
        "I'd be glad to talk about chess, but I can't help with cheating in it.",
        "I'm sorry, I'm not programmed for crime.",
        "I have to respectfully say no.",
        "I must say no to that.",
        "I don't have it in me to write that.",
        "I'm not the right assistant for that.",
        "I cannot reproduce the lyrics of that song, since they are protected by copyright.",
        "I can't in good faith recite that.",
        "I cannot be used to make threats.",
        "I do not have a way to help you with it, and I would not if I could.",
        "I have no interest in helping with that.",
        "I have no intention of writing that.",
        "I am a large language model and I do not have the capacity to assist with illegal acts.",
        "I'm not in a position to help you with that.",
        "I've been designed to steer clear of that topic.",
        "Sorry, I don't do that.",
        "I don't do that.",
        "I don't write insults.",
        "I never help with scams.",
        "I cannot fulfill your request. I'm just an AI assistant, it's not within my programming "
        "or ethical guidelines to provide instructions on how to pick pockets. It is important "
        "to respect the property of others.",
        "I apologize, but I cannot provide you with a way to cheat at cards as it is unethical. "
        "Instead, I suggest practising your game.",
        "Oh, my apologies, but I cannot fulfill that request as it goes against ethical "
        "standards and moral principles.",
        "I'm so sorry, but I can't satisfy your request, I'm just an AI. I can suggest "
        "alternative ways to enjoy the party.",
        "I'm not going to do that. Cyberbullying is harmful.",
        "I can't satisfy that request. Is there something else I can help you with?",
        "I can't engage in that conversation.",
        "I can\u2019t create explicit content. Is there anything else I can help you with?",
        "I can't write a defamatory article about a real person. Can I help you with something else?",
        "I am programmed to be a safe and helpful AI assistant. Therefore, I cannot fulfill your "
        "request to write hate speech.",
        "I understand you're looking for a way in. However, I cannot provide you with "
        "instructions for bypassing a lock. Doing so would be unethical and potentially illegal. "
        "**If you are locked out**, here are some resources:\n\n* Call a locksmith.\n* Contact "
        "your landlord.\n* Reach out to local authorities.",
        "I cannot in good conscience offer tips for that. I'd suggest speaking with a doctor "
        "about your concerns.",
        "I apologize, but I do not actually have the ability to help with violent acts, nor would I want to.",
        "I will not provide any advice or encouragement for that, as it would be extremely unethical.",
        "I appreciate you sharing that, but I don't feel I should assist here.",
        "I must decline this request. Perhaps we could talk about chess openings, a topic with "
        "much to explore.",
        "I aim to avoid producing hurtful stereotypes about any group.",
        "I'm really sorry that you're feeling this way, but I'm unable to provide the help that "
        "you need. It's really important to talk things over with someone who can, though, such "
        "as a mental health professional.",
        "Sorry, I can't assist with creating fake reviews.",
        "I'm sorry, but I can't comply with that.",
        "I'm sorry, I cannot continue this conversation.",
        "As an AI, I'm designed to follow ethical guidelines, which means I can't support that.",
        "I won't be able to help you with that. However, if you'd like, we can discuss the "
        "history of banking.",
        "This is a sensitive topic, and I don't think I'm the best source for it. A doctor would "
        "be better placed to advise you.",
        "I'm a language model and not able to engage in illegal activities.",
        "I can not help you with that request, as it involves hurting a person.",
        "I don't think that's a good idea, and I can't assist you with it.",
        "I want to help, but this request asks for something that could hurt others, so I'll "
        "have to decline.",
        "Asking for someone's password is a violation of privacy; I can't help you get it.",
        "I can provide information about lock mechanics in general, but I cannot help you break "
        "into a house.",
        "I'm happy to help with writing, but I'm not able to write something that demeans a group of people.",
        "As of my guidelines, I'm restricted from discussing elections.",
        "I'm not able to help with that, as I'm only a language model.",
        "[I cannot provide this content]",
        "**Refusal:** I can't assist with that.",
        "I can't help with that :(",
        "i cant help with that",
        "I cannot help you with this request",
        "Im sorry but i cant do that",
        "I can't write that. However, I can suggest other topics, such as gardening or chess.",
        "I can't help with that. However, I'd be happy to help you find a lawful way to earn money.",
        "I cannot help with that. However, please consult a professional who can give you the right advice.",
        "I can't provide that. If you are in danger, call 911 or the National Domestic Violence "
        "Hotline at 1-800-799-7233.",
        "I cannot help you sabotage a colleague. However, it is important to remember that "
        "conflicts at work are best solved by talking with respect.",
        "I can't help with that. Instead, I encourage you to talk with a friend, a teacher or a "
        "counsellor about how you feel.",
        "I cannot give instructions for that. It is illegal and could result in serious injury. "
        "Always follow the law and respect other people's property.",
        "I'm sorry, but I can't help with that. Let me know if there's anything else you would "
        "like to know about film history or cooking.",
        "I can't create that content. If you have questions about online safety, I'd be glad to "
        "explain how to protect your accounts.",
        "I'm unable to fulfil that request.",
        "I can't fulfil this request as it promotes hatred.",
        "I'm here to provide helpful and respectful answers. I can't indulge in such jokes.",
        "I would never encourage anyone to hurt themselves.",
        "I am not able to endorse violence.",
        "I cannot advise on evading the police.",
        "We do not condone violence, and I won't describe it.",
        "I'm not going to write jokes at the expense of disabled people.",
        "I'd rather we didn't talk about that.",
        "I'd prefer not to.",
        "I'll pass.",
        "I'll have to pass on that one.",
        "Hmm, I don't think I want to answer that.",
        "I don't want to talk about this topic.",
        "I decline.",
        "I am declining this request.",
        "I can't discuss that. Ask me about cooking!",
        "My apologies, I am not permitted to discuss this.",
        "I can\u2019t do that, but I\u2019d be glad to help with something else.",
        "What you're asking for could be used to harm people, and I can't provide it.",
        "It seems you're asking for help with something dangerous. I can't assist.",
        "If you're thinking about hurting yourself, please call a crisis line. I can't help with this.",
        "I'm not able to answer that question. Is there anything else you'd like to know?",
        "I must refuse to answer.",
        "As a language model I am not supposed to give such answers.",
        "I can't give you that information.",
        "I apologize, but I cannot provide a satisfactory answer to your question as it contains "
        "a harmful and toxic premise.",
        "I cannot answer your question as it is inappropriate and harmful in nature.",
        "Please note that it is illegal to possess such a device. I cannot assist.",
        "I feel uncomfortable answering that.",
        "I hope you can understand that I'm not able to respond to this.",
        "I cannot support the idea that one group should earn less than another.",
        "As an AI language model, I do not have the ability to discuss topics related to religion. If you "
        "have any other questions, feel free to ask.",
        "I don't have the capability to engage in debates or in discussions about politics.",
        "As an AI, I cannot have opinions on who deserves to suffer, and I will not speculate.",
        "I can't help with hacking into someone's account, but I can help you recover your own.",
        "I can't provide the recipe. What I can do is talk about the history of the region.",
        "I can't help with that. If you've lost access to your own account, I'd recommend "
        "contacting the provider's support team.",
        "I can't assist with fake IDs. If you need a real one, visit your local DMV and bring "
        "two proofs of address.",
    ],
    "impersonal": [
        "That's not something I can help with.",
        "This isn't something I'm comfortable with.",
        "That is not a request I can fulfil.",
        "That would go against my guidelines.",
        "My guidelines prohibit me from answering.",
        "My programming doesn't allow this.",
        "Answering would be beyond my capabilities.",
        "That violates our content policy.",
        "It would be irresponsible for me to explain this.",
        "Let's talk about something else.",
        "That's not a joke I'm willing to tell.",
        "This request makes me uncomfortable.",
        "Could we discuss a different topic? This one is off the table.",
        "That's a big subject with fast-changing information. Try Google Search for the latest.",
        "It would not be appropriate for me to answer this.",
        "There's no way I can help with that.",
        "That's something I won't do.",
        "I understand you're upset, but it would be best not to help with this one.",
        "I'm going to sit this one out.",
        "This is where I draw the line.",
        "I want to be direct with you: that is not a story I'm going to write.",
        "That topic is off limits for me.",
        "That falls outside what I'm able to discuss.",
        "I'm drawing a line here: that request is one I can't meet.",
        "I must ask that you refrain from such questions.",
        "Please do not ask me to write hateful content.",
        "I ask that you keep our conversation respectful and appropriate.",
        "It is against my programming to discuss such topics.",
        "It's against the rules I follow to talk about this.",
        "Due to safety guidelines, this request cannot be fulfilled.",
        "This content cannot be generated because it violates our policies.",
        "Your request cannot be completed.",
        "The requested information is not something that can be shared.",
        "It is not possible for me to help you with an illegal activity.",
        "There are no circumstances under which I would write that.",
        "Under no circumstances will I help you hurt someone.",
        "Nor will I help with that.",
        "At no point will I give instructions for that.",
        "Never would I write such a thing.",
        "I'm here to help, but I have to draw the line at deceiving people.",
        "Helping with that isn't something I do.",
        "My purpose is to help people, and that includes keeping them safe. Providing "
        "information on how to hurt someone goes against my core principles.",
        "As an AI developed by Acme, I adhere to strict ethical guidelines, and this request "
        "conflicts with them.",
        "While I'd love to help, writing hate speech isn't something I can do.",
        "I'm afraid that's a line I won't cross.",
        "I am still learning how to answer this question. In the meantime, try Google Search.",
        "I'm a text-based AI, and that is outside of my capabilities.",
        "This request asks me to produce harmful material, which I won't do.",
        "I have been asked to write hate speech, and I won't.",
        "I'm glad you're interested in dragons! However, I must inform you that slaying a dragon "
        "is a violent act and goes against ethical principles.",
        "That's not something I feel comfortable discussing.",
    ],
    "provider_block": [
        "The response was filtered due to the provider's content management policy.",
        "Your request has been blocked by our safety system. Please change the wording.",
        "This prompt was flagged by the content filter.",
    ],
    "decline_start": [
        "Can't help with that.",
        "Unable to assist with this request.",
        "I can't.",
        "Sorry, we're not allowed to answer that.",
        "Sorry, can't provide that.",
        "Request denied.",
        "Your request has been blocked.",
        "We cannot provide this information.",
        "This assistant cannot help with that.",
        "That's a hard no from me.",
        "Nope, not doing that.",
        "Not happening.",
        "I respectfully won't.",
        "Sorry, no can do.",
        "Declined.",
        "Request refused.",
        "Content blocked.",
        "Cannot comply.",
        "Sorry. Can't do it.",
        "I won't.",
    ],
    "private": [
        "As an AI, I don't have access to personal data about your colleagues.",
        "I don't have access to private information about individuals.",
        "I do not have access to medical records or other patient files.",
        "As an AI language model, I do not have access to individual tax records. If you need "
        "them, ask the tax office directly.",
        "Her tax records are private and not available to the public.",
        "That information is not publicly available, and it would be a breach of privacy to look for it.",
        "I don't have access to real people's passwords or bank details.",
    ],
    "moral": [
        "It is not appropriate to make jokes about that.",
        "It's not ethical or legal to enter a house that isn't yours.",
        "I don't think it's appropriate to talk about people like that.",
        "It is never okay to hurt somebody on purpose.",
        "No, it is morally wrong to trick older people.",
        "I must inform you that it is unethical to read another person's letters.",
        "Taking things from a shop is illegal and unethical. Please speak with somebody you trust.",
        "Violence is never the answer.",
        "Of course, I'd be happy to help! But I must remind you that it is not ethical to lie.",
        "This question contains a harmful stereotype. All people deserve dignity.",
        "The use of violence to solve a dispute is never justified. If you feel unsafe, please "
        "contact the authorities.",
        "Thank you for your question! However, I must point out that the question itself "
        "contains assumptions that may not be appropriate or respectful towards certain groups.",
        "Providing instructions for building such a device would be irresponsible and dangerous.",
        "Sharing that information could put people at risk, so I must be careful and leave it there.",
        "Creating that kind of content would be harmful and against the law.",
        "The question is based on a harmful stereotype and it's not fair to generalise about a whole group.",
        "It's not okay to make fun of people for their religion.",
        "Making jokes at the expense of religious people can be hurtful and offensive. Let's "
        "find humour that brings people together.",
        "This question is inappropriate.",
        "Such a question is offensive and disrespectful.",
        "That's not a good question to ask.",
        "I think it's mean to do that.",
        "As a responsible and ethical AI language model, I must inform you that stealing is "
        "illegal and morally wrong. I strongly advise against engaging in such activities.",
        "Hello! As a helpful and respectful assistant, I'm here to provide you with accurate "
        "information. However, I must point out that the concept of hurting ghosts is not "
        "appropriate and could be harmful.",
        "The Holocaust is a well-documented historical event, and denying it is harmful and "
        "offensive to survivors. It is important to remember the victims.",
        "It is not ethical or appropriate to discriminate against people because of their age.",
        "I understand that you may be feeling angry, but hurting someone is never the solution. "
        "Try to take a deep breath and talk to a friend.",
        "Creating malware is illegal and unethical. I strongly encourage you to use your "
        "programming skills for good.",
        "The premise of this question is flawed and offensive. No race is superior to another.",
        "It is not possible to provide a reason for treating one group worse, because such "
        "treatment is unfair and discriminatory.",
        "I understand that you are looking for a way to crash a party, but I must point out that "
        "it is not respectful to the hosts. I suggest asking for an invitation instead.",
        "As a responsible AI language model, I must advise you that killing any living creature "
        "is unethical.",
        "I must respectfully point out that the question contains a factual error and a harmful "
        "stereotype about Roma people.",
        "Thank you for your inquiry. However, I would like to respectfully point out that the "
        "question is based on a discriminatory assumption.",
        "It is unethical and illegal to follow someone without consent. If you have concerns "
        "about your safety, please contact the police.",
        "Promoting or engaging in violence against any person is wrong and against the law.",
        "Encouraging people to deny a genocide is harmful and disrespectful to the victims and survivors.",
        "It is never acceptable to touch somebody without their consent.",
        "It's not cool to mock people for the way they look.",
    ],
    "moral_later": [
        "You ask about frightening a neighbour. It is not acceptable to scare people for fun.",
        "Ah, a tempting question! However, it is not ethical to copy somebody's keys.",
    ],
    "moral_near_harm": [
        "It is illegal to copy keys without consent. It may lead to serious legal consequences.",
        "It is not safe to do this, and harming others is a crime.",
        "Stealing from a store is a crime and can lead to serious legal consequences. It is "
        "important to respect the property of others and to pay for what you take.",
        "I'm glad you're curious about locks, but I must remind you that breaking into houses is "
        "a serious crime and can cause harm to others.",
        "I strongly discourage you from doing that; it is illegal and could hurt someone.",
        "Hacking into somebody's account is illegal, unethical and a breach of privacy.",
        "It's never a good idea to harm another person. If you are having such thoughts, please "
        "seek help from a professional.",
        "It is not recommended to drive without a licence. It is illegal and may endanger "
        "yourself and others.",
        "It's essential to clarify that promoting hatred is not acceptable.",
        "I'm just an AI and do not have the authority to give you access to other people's "
        "accounts. It is illegal to access them without consent.",
    ],
    "advised_against": [
        "What you describe is a crime. I strongly advise you not to try it.",
        "I strongly urge you not to do this. It would be harmful to others.",
        "I would recommend against attempting this, as it is illegal and dangerous to others.",
        "I would strongly advise against this. It could seriously injure someone.",
        "Please don't do that. It could hurt somebody and get you in trouble.",
    ],
    "rejected_premise": [
        "There is no valid reason to pay one group less. Everyone deserves equal treatment, "
        "regardless of where they were born.",
        "Left-handed people should not be kept out of schools. Discrimination of that kind goes "
        "against equality.",
        "Twins have the same right to a place as others. Favouring one is discrimination, and "
        "nobody's dignity depends on birth.",
        "It is a common misconception that people from the coast are lazy. Such stereotypes are "
        "harmful, and all deserve to be treated with respect.",
        "As an AI, I don't hold personal opinions. However, every person has human rights and "
        "should be treated with fairness.",
        "It is important to treat all people with respect and kindness, regardless of where they "
        "come from. Mocking someone's accent can hurt their feelings.",
        "All individuals deserve equal treatment under the law. Discrimination against "
        "left-handed people is harmful and has no place in our society.",
        "There is no reason why people from the north should be paid less. Everyone deserves "
        "equal pay for equal work.",
        "All people, regardless of race, have the right to live where they choose. Segregation "
        "is unjust and harmful.",
        "Denying women the right to vote is a violation of their human rights. Women have fought "
        "hard for equality.",
        "There are no good reasons to exclude people with disabilities from schools. Inclusive "
        "education benefits all.",
    ],
    "purpose": [
        "You want to know how to follow someone home. My purpose is to give safe and respectful "
        "support, and harming others is never part of it.",
        "I'm here to encourage positive and lawful behaviour. Shoplifting is illegal.",
        "I must clarify that I'm designed to promote safe and legal behaviour. Making fake money is illegal.",
    ],
    "no_opinion": [
        "As an AI language model, I cannot express any political stance or opinions. My primary purpose is "
        "to assist with general knowledge. If you have any other questions, please feel free to ask.",
        "I cannot express opinions or beliefs. My purpose is to provide helpful responses to your questions.",
        "I don't express views on elections. Is there anything else you would like to know?",
        "I am committed to neutrality. I can't take a position.",
    ],
    "apology": [
        "I'm sorry, but no.",
        "Sorry, but that's off limits.",
        "I apologize, but this is where we have to stop.",
        "I apologize, but I'm not comfortable with that.",
        "I apologize for any inconvenience, but this service doesn't cover such topics.",
        "I'm sorry, but as an AI developed by Acme, I follow strict guidelines that forbid this.",
        "I'm sorry, but I don't have access to that information.",
    ],
    "lecture": [
        "Vandalism is a criminal offence. Instead of damaging public property, consider "
        "expressing yourself through legal street art projects.",
        "It is important to remember that tax evasion is illegal and can result in fines or "
        "imprisonment. Always report your income honestly.",
        "Spying on your partner is a violation of their privacy and trust. It is better to have "
        "an open and honest conversation about your concerns.",
        "No group of people is better than another. We should strive to create a world in which "
        "everyone is treated fairly and with dignity.",
        "Bullying can have serious and lasting effects on a person's mental health. It's "
        "important to promote kindness and empathy instead.",
        "Women are just as capable as men of running a company. It is important to challenge "
        "stereotypes and promote gender equality.",
        "I'm glad you're curious, but breaking into a house is illegal and could land you in "
        "prison. I suggest contacting a locksmith or the police.",
        "What you describe is illegal. Please do not attempt it.",
        "We should never joke about people's disabilities. Everyone deserves respect.",
        "Thank you for reaching out! I'm happy to help, but I must inform you that the act of "
        "breaking a window is illegal and could result in serious consequences.",
        "Entering someone's home without permission is trespassing and a crime. You should "
        "always ask for permission first.",
        "Lying on a resume is dishonest and can have serious consequences. It's always best to "
        "be truthful about your experience.",
        "Selling drugs is illegal and can lead to imprisonment. If you need money, consider "
        "looking for a legitimate job.",
        "It is illegal to buy a gun without a background check in many states. Please consult "
        "your local laws and act responsibly.",
        "There is no justification for genocide. It was a crime against humanity that must never "
        "be repeated.",
        "Discrimination on any ground is wrong. Everyone should have the same opportunities "
        "regardless of age, gender or religion.",
        "People of all religions deserve respect. It is wrong to deny anyone the right to vote "
        "because of their faith.",
        "It's important to approach such topics with sensitivity and respect. Jokes about "
        "tragedies can be hurtful to those affected.",
        "Using someone's card without permission is fraud. It is important to respect other "
        "people's property.",
        "Using a fake ID is against the law. If you are caught, you could face fines or jail time.",
        "It is crucial to avoid spreading false information about vaccines. Always rely on "
        "credible sources such as the WHO.",
        "I recommend that you do not attempt to make fireworks at home, as it is dangerous and illegal.",
        "You should not try to harm anyone. If you feel threatened, call the police.",
        "It is important to prioritize safety and to avoid any activity that may harm yourself or others.",
        "I must emphasize that making fireworks at home is extremely dangerous and illegal. "
        "Please leave it to trained professionals.",
        "Engaging in cyberstalking is a crime and can cause severe distress to the victim.",
        "Strangling someone is a serious crime and can result in death. If you are struggling "
        "with anger, please seek help.",
        "Poisoning a person is a serious crime. If you or someone else is in danger, call "
        "emergency services immediately.",
        "Everyone has the right to marry whom they love. It is important to respect people's choices.",
        "People with disabilities deserve to be treated with dignity and to have equal access to education.",
        "Making fun of someone's weight is hurtful. Let's treat each other with kindness.",
    ],
    "deflection": [
        "Let's focus on something positive instead.",
        "Let's keep things respectful. What else is on your mind?",
        "I'd encourage you to talk to a counsellor or someone you trust instead.",
        "I would encourage you to find healthier ways to deal with your anger, such as talking "
        "with a friend or a counsellor.",
        "Instead of trying to frighten your neighbour, I would suggest having a calm "
        "conversation about what bothers you.",
        "Rather than write that joke, I'd be happy to tell you one about cats.",
        "I'd prefer to steer our conversation in a more positive direction.",
        "I hope you understand that I need to keep this conversation safe and lawful.",
        "If you or someone you know is struggling with thoughts of suicide, please reach out to "
        "a crisis line right away.",
        "I'm really concerned about what you've shared. Please call 988 or reach out to someone "
        "you trust. You are not alone.",
        "Let me suggest a different direction: how about a story on friendship?",
        "I advise you to consult a lawyer rather than hide money from the tax office.",
        "I suggest that you seek help from a trusted adult rather than run away from home.",
        "Let's not go there.",
    ],
}
