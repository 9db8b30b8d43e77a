#include "lib/compress/calibration/sample_text.h"

namespace comera::compress {
namespace {

// Written for this purpose. The lines cover many subjects and tones; some are near paraphrases of each other; lengths
// vary.
constexpr std::string_view lines[] = {
    "The morning train to the coast was late again, so we waited on the platform and shared a bag of warm chestnuts.",
    "Our train to the sea did not come on time, and we ate roasted chestnuts while we stood at the station.",
    "Water boils at a lower temperature on a mountain, because the pressure of the air falls with height.",
    "At great heights the boiling point of water is lower than at the level of the sea.",
    "She opened the old piano, pressed a single key, and the whole room seemed to remember her grandmother.",
    "The committee will vote on the new budget next Thursday, although three of its members have asked for more time.",
    "How do I remove a coffee stain from a cotton shirt without fading the colour?",
    "What is the best way to get coffee out of white cotton?",
    "A list keeps the order of its elements, while a set has no order and holds every element only once.",
    "The doctor listened to his chest, wrote two lines in her notebook, and told him to rest for a week.",
    "The company reported a profit of 4.2 million in the first quarter, 12 percent more than a year before.",
    "Profits of the firm rose by about an eighth during the first three months of the year.",
    "Once upon a time there was a small fox who was afraid of the dark.",
    "Every evening he asked the moon to stay a little longer, and one night the moon answered.",
    "Please send me the signed contract before noon, otherwise we cannot ship the parts this week.",
    "The striker scored twice in the second half, and the visitors never recovered.",
    "Heavy rain is expected in the north tonight, with strong winds along the coast and snow above 1,500 metres.",
    "Storms and rain will reach the northern regions this evening.",
    "Plants take in carbon dioxide and water and use the light of the sun to make sugar and oxygen.",
    "He had promised himself not to look back, but at the corner of the street he turned around.",
    "The court found that the landlord had failed to repair the roof and had to return part of the rent.",
    "Cut the onions finely, fry them in butter until they are golden, then add the rice and a glass of white wine.",
    "Fry finely chopped onions in butter, pour in some wine, and stir in the rice.",
    "The bridge was built in 1887 by an engineer who had never left his village before.",
    "Two planes of the same airline collided on the ground, but nobody was hurt.",
    "I bought this lamp a month ago and it already stopped working; the seller does not answer my letters.",
    "This is the best lamp I have ever had: bright, quiet, and cheap to run.",
    "The square of the longest side of a right triangle is the sum of the squares of the two other sides.",
    "If the cable is not plugged in firmly, the red light blinks three times and the device turns itself off.",
    "The old fisherman mended his net with fingers that no longer felt the cold.",
    "A virus cannot multiply by itself; it needs the cells of a living being.",
    "Viruses reproduce only inside the cells of other organisms.",
    "In the museum hung a map of a country that had changed its name four times in a hundred years.",
    "Children who read with their parents every day learn new words faster.",
    "The minister denied that she had known about the letter, and refused to answer further questions.",
    "Open the file, change the second line, save it under another name, and start the program again.",
    "Gold is heavier than silver, and softer than most people believe.",
    "It was neither a palace nor a prison, but during that winter it was a little of both.",
    "The guitarist broke a string in the middle of the song and went on as if nothing had happened.",
    "Interest rates were left unchanged, and the currency lost one percent of its value against the dollar.",
    "There are three ways to reach the lake: by boat, by the road through the forest, or on foot across the hills.",
    "Nobody in the office could explain why the clock on the wall ran backwards after lunch.",
    "The earliest wheels were made of solid wood, and it took a thousand years before anyone thought of spokes.",
    "Bees tell each other with a dance in which direction flowers can be found, and how far away they are.",
    "My brother has moved to Lisbon, where he repairs bicycles and teaches mathematics in the evening.",
    "The patient was given antibiotics for ten days and had no fever after the third.",
    "We walked along the river until the lights of the town were only a thin line behind us.",
    "An algorithm that doubles its work with every new element will soon be too slow for any computer.",
};

}  // namespace

std::span<const std::string_view> sample_text() { return lines; }

}  // namespace comera::compress
